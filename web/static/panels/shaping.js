// All that shapes the tree that is shown: the menu of a box, chips, the Simplify menu, the sandwich, and the table of
// the tree. main.js connects it as one part.

import { ALL_ACTIONS, BoxMenu } from '../graph/box_menu.js';
import { Sandwich } from '../graph/sandwich.js';
import { Menu } from '../page/menu.js';
import { shownTabs } from '../page/beside.js';
import { byId } from '../page/dom.js';
import { say } from '../page/toast.js';
import { isReport } from '../server/connection.js';
import { searchTarget } from '../model/shape.js';
import { SHAPES, WEIGHTS } from '../model/state.js';
import { Changes } from './changes.js';
import { Chips } from './chips.js';
import { CompareBar } from './compare_bar.js';
import { Simplify } from './simplify.js';
import { TreeTable } from './tree_table.js';

export class Shaping {
  /**
   * @param getState the page's state
   * @param graph the main graph
   * @param on {change(patch), point(info, graph), learn(view), wholeNs(), isHeld()}
   */
  constructor(getState, graph, on) {
    Object.assign(this, { getState, graph, on });
    const zoom = (path) => on.change({ zoom: path, tab: 'graph', sandwich: '' });
    this.menu = new Menu();
    this.boxMenu = new BoxMenu(this.menu, getState, { change: on.change, zoom });
    this.chips = new Chips(on.change);
    this.simplify = new Simplify(on.change);
    this.sandwich = new Sandwich(getState, { ...on, failed: say });
    this.compare = new CompareBar(on.change, this.menu);
    this.changes = new Changes({
      sort: (sort) => on.change({ sort }),
      menu: (place, f) => this.boxMenu.open(place, f, () => f.name),
    });
    this.table = new TreeTable(getState, {
      menu: (place, row, stack) => this.boxMenu.open(place, row, stack, [
        { label: 'Show in the graph', key: 'enter', action: () => zoom(row.path) },
      ]),
      zoom,
      failed: say,
      isHeld: on.isHeld,
    });
    for (const each of [graph, ...this.sandwich.graphs]) this.boxMenu.watch(each);
    this.hasPython = false;
    this.steps = [];
    byId('simplify').hidden = isReport;
  }

  /** The keys that act on a box, and those of the Simplify menu. */
  get keys() {
    const actions = ALL_ACTIONS.map(([key]) => [key, () => this.boxMenu.press(key, this.pointed())]);
    const { simplify } = this;
    const menu = ['m', () => this.boxMenu.openAt(this.pointed(), this.pointed().current())];
    if (isReport) return Object.fromEntries([...actions, menu]);
    return {
      ...Object.fromEntries([...actions, menu]),
      j: () => simplify.press('chains'),
      v: () => simplify.press('inverted'),
    };
  }

  /** Returns the graph that the mouse or the keyboard is at. */
  pointed() {
    if (!this.sandwich.isOpen) return this.graph;
    const { graphs } = this.sandwich;
    const isAt = (graph) => graph.hovered !== null || graph.scroller === document.activeElement;
    return graphs.find(isAt) ?? graphs.find((graph) => graph.selectedPath) ?? graphs[1];
  }

  /** Shows what calls the functions that a search finds, and what they call. */
  showCallers(search) {
    this.on.change({ sandwich: searchTarget(search), tab: 'graph' });
  }

  /** Closes a menu, or the sandwich. Returns whether there was one. */
  close() {
    return this.menu.close() || this.simplify.close();
  }

  /** Shows the state. @param isOther returns whether a part of it has changed */
  update(isOther) {
    const state = this.getState();
    this.chips.update(state, this.steps);
    this.simplify.update(state, this.hasPython);
    this.compare.update(state);
    const isTable = shownTabs(state).includes('functions');
    byId('functions').hidden = !isTable || state.compare !== '';
    byId('changes').hidden = !isTable || state.compare === '';
    this.sandwich.update(['sandwich', 'search', ...WEIGHTS, ...SHAPES].some(isOther));
    this.table.update();
    byId('graph').classList.toggle('has-sandwich', this.sandwich.isOpen);
  }

  /** Takes what a view says about the steps. */
  show(view) {
    this.steps = view.steps;
    this.sandwich.showWeights();
    this.compare.showFound(view);
    this.changes.update(view, { sort: this.getState().sort, palette: this.palette });
    this.chips.update(this.getState(), this.steps);
  }

  setPython(hasPython) {
    this.hasPython = hasPython;
    this.simplify.update(this.getState(), hasPython);
  }

  setTheme(palette, font, focusColor) {
    this.palette = palette;
    this.compare.setTheme(palette.theme);
    this.sandwich.setTheme(palette, font, focusColor);
    this.table.setPalette(palette);
  }

  news(revision) {
    this.sandwich.news(revision);
    this.table.news(revision);
  }

  setLine(line) {
    this.sandwich.setLine(line);
  }
}
