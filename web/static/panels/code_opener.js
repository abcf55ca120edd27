// Decides which function's code is shown: the one asked for, and then the one zoomed to.

import { hasCode } from '../model/explain.js';
import { byId } from '../page/dom.js';
import { say } from '../page/toast.js';

export class CodeOpener {
  constructor(getState, { code, graph, quality }) {
    Object.assign(this, { getState, code, graph, quality });
    this.zoom = ''; // the zoom that the open panel shows
  }

  /** Shows a function's code. Closes the quality panel if that would cover it. */
  open(f, tab) {
    if (!hasCode(f)) return;
    if (this.quality.isOpen && this.quality.isSheet) this.quality.toggle(false);
    this.zoom = String(this.getState().zoom);
    this.graph.forgetPointer();
    this.code.open(f, tab);
    byId('code-list').focus();
  }

  /** Shows the code of the box that is hovered, else selected, else zoomed to. */
  show(tab) {
    const { view } = this.graph;
    const box = this.graph.hovered ?? this.graph.selected() ?? view?.zoom.box ?? null;
    const f = box === null || view === null ? null : view.functionOf(box);
    if (hasCode(f)) this.open(f, tab);
    else if (this.code.isOpen) this.code.open(this.code.func, tab);
    else say('Point at a function, or zoom to one, to see its code.');
  }

  /** Updates the open panel to the zoomed function. */
  follow(view) {
    this.code.news();
    if (!this.code.isOpen || this.zoom === String(this.getState().zoom)) return;
    this.zoom = String(this.getState().zoom);
    const f = view.functionOf(view.zoom.box);
    if (hasCode(f)) this.code.open(f);
  }
}
