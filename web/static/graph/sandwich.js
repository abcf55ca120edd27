// A function between its callers, above, and what it calls, below: two graphs of one function.

import { byId, h, setText } from '../page/dom.js';
import { formatShare } from '../model/format.js';
import { formatWeight } from '../model/weight.js';
import { Graph } from './graph.js';
import { functionTarget, halfSteps } from '../model/shape.js';
import { ROWS_STEP, rowsToAsk } from '../model/state.js';
import { Views } from '../server/views.js';

class Half {
  constructor(owner, { verb, title, label, isFlame }) {
    Object.assign(this, { owner, verb, rows: ROWS_STEP });
    this.weight = h('span', { class: 'number' });
    this.title = h('h2', { class: 'half-title' }, title, this.weight);
    const canvas = () => h('canvas', { 'aria-hidden': 'true' });
    const spacer = h('div');
    const scroller = h('div', { class: 'scroller', tabindex: '0', role: 'application', 'aria-label': label }, spacer);
    const [boxCanvas, markCanvas] = [canvas(), canvas()];
    this.element = h('div', { class: 'half' }, boxCanvas, markCanvas, scroller);
    const parts = { scroller, spacer, boxCanvas, markCanvas };
    this.graph = new Graph(parts, {
      zoom: (path) => this.recenter(path),
      point: (info) => owner.on.point(info, this.graph),
      needRow: (row) => this.needRow(row),
    });
    this.graph.setFlame(isFlame);
    this.graph.dims = false; // a search often leads here: its match is in the middle, and all others are asked for
    this.views = new Views(
      () => this.state(),
      () => ({ width: this.graph.width || innerWidth, rows: this.rows }),
      { show: (view, isNew) => this.show(view, isNew), failed: owner.on.failed, offline: () => {}, isHeld: owner.on.isHeld },
    );
  }

  /** The page's state as it is for this half: nothing zoomed, and only the function's stacks. */
  state() {
    const state = this.owner.getState();
    return { ...state, tab: 'graph', zoom: [], shape: halfSteps(state.shape, this.verb, state.sandwich) };
  }

  show(view, isNew) {
    this.owner.on.learn(view);
    this.graph.setView(view, isNew);
    this.showWeight();
    this.owner.showEmpty(view);
  }

  /** Shows the function's weight and its share, once both are known. */
  showWeight() {
    const [total, whole] = [this.views.current?.total_ns ?? 0, this.owner.on.wholeNs()];
    setText(this.weight, whole ? `${formatWeight(total)} · ${formatShare(total, whole)} of all` : '');
  }

  needRow(row) {
    const view = this.views.current;
    const wanted = view ? rowsToAsk(row, view.last_row, view.deepest_row) : 0;
    if (wanted <= this.rows) return;
    this.rows = wanted;
    this.views.request();
  }

  /** Puts the function of a box between the two graphs. */
  recenter(path) {
    const box = this.graph.view?.find(path) ?? null;
    const f = box === null ? null : this.graph.view.functionOf(box);
    if (f) this.owner.on.change({ sandwich: functionTarget(f) });
  }
}

export class Sandwich {
  /** @param on {change(patch), point(info, graph), learn(view), failed(message), wholeNs(), isHeld()} */
  constructor(getState, on) {
    Object.assign(this, { getState, on });
    this.element = byId('sandwich');
    const keys = 'Arrow keys go from box to box, Enter puts a box in the middle.';
    this.halves = [
      new Half(this, { verb: 'callers', title: 'What calls it', label: `Callers. ${keys}`, isFlame: true }),
      new Half(this, { verb: 'focus', title: 'What it calls', label: `Callees. ${keys}`, isFlame: false }),
    ];
    this.empty = h('p', { class: 'sandwich-empty dim', hidden: true }, 'No time of it is recorded here.');
    for (const { title, element } of this.halves) this.element.append(title, element);
    this.element.append(this.empty);
  }

  get isOpen() {
    return !this.element.hidden;
  }

  get graphs() {
    return this.halves.map(({ graph }) => graph);
  }

  /** Shows the state; `isOther` if what is shown changes. */
  update(isOther) {
    const { sandwich, tab } = this.getState();
    const wasOpen = this.isOpen;
    this.element.hidden = !sandwich || tab !== 'graph';
    if (!this.isOpen || !(isOther || !wasOpen)) return;
    for (const half of this.halves) {
      half.graph.layOut();
      half.views.request({ isNewPlace: true, isLive: !this.on.isHeld() });
    }
  }

  showEmpty(view) {
    this.empty.hidden = view.total_ns > 0;
  }

  /** Notes that the main view, of which the shares are, is another one. */
  showWeights() {
    if (this.isOpen) for (const half of this.halves) half.showWeight();
  }

  setTheme(...theme) {
    for (const graph of this.graphs) graph.setTheme(...theme);
  }

  news(revision) {
    for (const { views } of this.halves) {
      if (this.isOpen) views.news(revision);
      else views.newest = revision;
    }
  }

  setLine(line) {
    for (const { views } of this.halves) {
      if (this.isOpen) views.setLine(line);
      else views.line = line;
    }
  }
}
