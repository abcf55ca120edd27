// A long list of which only the rows in sight have elements. Rows have the same height, and places by number.

import { rowsInSight } from '../model/listing.js';
import { byId } from '../page/dom.js';
import { reconcile } from '../page/reconcile.js';

const MORE = 12; // rows on each side of those in sight

export class VirtualList {
  /**
   * @param parts {scroller, spacer, rows}: the scrolled element, the one as high as all rows, and the one for
   *   those in sight
   * @param on {rowHeight, make, onScroll}: rowHeight() returns the height of a row in pixels; make(at) creates
   *   its element, with a data-key; onScroll() is called after scrolling or a change of size
   */
  constructor({ scroller, spacer, rows }, { rowHeight, make, onScroll = () => {} }) {
    Object.assign(this, { scroller, spacer, rows, rowHeight, make, onScroll });
    this.count = 0;
    const moved = () => {
      this.draw();
      this.onScroll();
    };
    scroller.addEventListener('scroll', moved);
    new ResizeObserver(moved).observe(scroller);
  }

  /** Returns the rows in sight and `more` on each side: [first, one past the last]. */
  inSight(more = 0) {
    const { scrollTop, clientHeight } = this.scroller;
    return rowsInSight(this.count, this.rowHeight(), scrollTop, clientHeight, more);
  }

  /** Shows the present rows, `count` in all. */
  update(count) {
    this.count = count;
    this.spacer.style.height = `${count * this.rowHeight()}px`;
    this.draw();
  }

  draw() {
    const [first, end] = this.inSight(MORE);
    const elements = [];
    const height = this.rowHeight();
    for (let at = first; at < end; at++) {
      const element = this.make(at);
      element.style.top = `${at * height}px`;
      elements.push(element);
    }
    reconcile(this.rows, [...elements, this.focusedAmongOthers(elements)]);
  }

  /** Returns the row with the focus if it is none of these: it stays, out of sight, and keeps the focus. */
  focusedAmongOthers(elements) {
    const focused = [...this.rows.children].find((row) => row.contains(document.activeElement));
    if (!focused || elements.some((each) => each.dataset.key === focused.dataset.key)) return null;
    return focused;
  }

  /** Scrolls until row `at` is in sight. */
  reveal(at) {
    const height = this.rowHeight();
    const { scrollTop, clientHeight } = this.scroller;
    const top = at * height;
    if (top < scrollTop || top > scrollTop + clientHeight - 3 * height) {
      this.scroller.scrollTop = Math.max(0, top - clientHeight / 3);
    }
    this.draw();
  }
}

/** Returns the parts of a list whose elements have the ids NAME-list, NAME-spacer and NAME-rows. */
export function partsOf(name) {
  return { scroller: byId(`${name}-list`), spacer: byId(`${name}-spacer`), rows: byId(`${name}-rows`) };
}
