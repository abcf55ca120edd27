// What can be done with a function: a menu at its box or row, and the same by single keys.

import { copyText } from '../page/clipboard.js';
import { isReport } from '../server/connection.js';
import { NOT_SAVED, say } from '../page/toast.js';
import { addStep, functionTarget, moduleTarget } from '../model/shape.js';
import { stackText } from '../model/stack_text.js';

/** The keys, in the order of the menu. */
export const ALL_ACTIONS = [
  ['c', 'Callers and callees', 'sandwich'],
  ['o', 'Only this and what it calls', 'focus'],
  ['r', 'Only stacks through it', 'only'],
  ['h', 'Hide it', 'hide'],
  ['x', 'Leave out stacks through it', 'without'],
  ['k', 'Fold its module', 'fold'],
  ['y', 'Copy the stack', 'copy'],
];
// A saved report has no other trees than those that it was saved with.
export const ACTIONS = isReport ? ALL_ACTIONS.filter(([, , verb]) => verb === 'copy') : ALL_ACTIONS;

export class BoxMenu {
  /**
   * @param menu the Menu
   * @param getState the page's state
   * @param on {change(patch), zoom(path)}
   */
  constructor(menu, getState, on) {
    Object.assign(this, { menu, getState, on });
  }

  /** Opens the menu of a graph's boxes on a right click, a long touch, or the keyboard's menu key. */
  watch(graph) {
    graph.scroller.addEventListener('contextmenu', (event) => {
      if (!graph.view) return;
      event.preventDefault();
      const area = graph.scroller.getBoundingClientRect();
      const isPointed = event.button === 2 || event.pointerType === 'touch';
      const box = isPointed ? graph.boxAt(event.clientX - area.left, event.clientY - area.top) : null;
      this.openAt(graph, box ?? graph.current(), isPointed ? { x: event.clientX, y: event.clientY } : null);
    });
  }

  /** Opens the menu of a box; without a place, at the box. */
  openAt(graph, box, place = null) {
    const f = box === null ? null : graph.view.functionOf(box);
    if (!f) return say('Point at a function, or select one with the arrow keys, to see what can be done with it.');
    const path = graph.view.pathOf(box);
    const stack = () => stackText(graph.view, box);
    const zoom = { label: 'Zoom to it', key: 'enter', action: () => this.on.zoom(path) };
    const at = place ?? graph.placeOf(box);
    graph.forgetPointer();
    this.open(at, f, stack, path.length ? [zoom] : []);
  }

  /** @param f {name, module} @param stack returns the text to copy @param more items before the others */
  open(place, f, stack, more = []) {
    const items = ACTIONS.filter(([, , verb]) => verb !== 'fold' || f.module).map(([key, label, verb]) => ({
      key,
      label: verb === 'fold' ? `Fold ${f.module}` : label,
      action: () => this.act(verb, f, stack),
    }));
    const hideModule = f.module && !isReport && { label: `Hide ${f.module}`, action: () => this.step(`hide:${moduleTarget(f.module)}`) };
    const at = items.findIndex(({ key }) => key === 'y');
    if (at > 0) items.splice(at, 0, ...(hideModule ? [hideModule] : []), null);
    this.menu.open(place, f.name, [...more, ...items]);
  }

  /** Does what a key says with the box that is hovered, else selected, else zoomed to. */
  press(key, graph) {
    const action = ALL_ACTIONS.find((each) => each[0] === key);
    if (!ACTIONS.includes(action)) return say(NOT_SAVED);
    const box = graph.current();
    const f = box === null ? null : graph.view.functionOf(box);
    if (f) this.act(action[2], f, () => stackText(graph.view, box));
    else say('Point at a function, or select one with the arrow keys, first.');
  }

  act(verb, f, stack) {
    if (verb === 'copy') copyText(stack(), `the stack of ${f.name}`);
    else if (verb === 'sandwich') this.on.change({ sandwich: functionTarget(f), tab: 'graph' });
    else if (verb === 'fold') this.step(`fold:${moduleTarget(f.module)}`);
    else this.step(`${verb}:${functionTarget(f)}`);
  }

  /** Adds a step. The zoom stays where its path still exists. */
  step(step) {
    const { shape } = this.getState();
    const isWay = /^(focus|callers)/.test(step);
    this.on.change({ shape: addStep(shape, step), sandwich: '', ...(isWay ? { zoom: [] } : {}) });
  }
}
