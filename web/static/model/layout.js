// Maps boxes of a view (web/encode.py has the columns) to positions on a canvas, and back. No DOM.
//
// Horizontal positions are fractions of the whole tree's width, so that a viewport {left, width}
// (zoomed to a third: {left: 0.2, width: 0.33}) means the same after an update. Vertically, the row of
// a box is its depth in the tree; zooming does not change it.

import { characters, visible } from './text.js';

export const WHOLE = Object.freeze({ left: 0, width: 1 });

/** A view from the server, with the geometry for drawing and hit tests. */
export class BoxView {
  /** @param asked the page's state when the view was requested */
  constructor(answer, asked) {
    Object.assign(this, answer, { asked });
    this.boxCount = answer.boxes.row.length;
    this.rowStarts = startsOfRows(answer.boxes.row);
    this.scale = answer.total_ns > 0 ? 1 / answer.total_ns : 0;
  }

  /** Returns the boxes of a row: [first, one past the last]; empty for rows that were not sent. */
  rowRange(row) {
    const starts = this.rowStarts;
    return row < 0 || row + 1 >= starts.length ? [0, 0] : [starts[row], starts[row + 1]];
  }

  left(box) {
    return this.boxes.x_ns[box] * this.scale;
  }

  width(box) {
    return this.boxes.total_ns[box] * this.scale;
  }

  /** Returns the viewport of a view: the zoomed box, or the zoomed run, has the full width. */
  get zoomed() {
    const { run, box } = this.zoom;
    if (!run || !(run.total_ns > 0)) return this.viewportOf(box);
    return { left: run.x_ns * this.scale, width: run.total_ns * this.scale };
  }

  /** Returns the name of a run of narrow boxes in the URL: the functions at its ends; "" for other boxes. */
  runOf(box) {
    const at = this.isRun(box) && this.runs ? this.runs.box.indexOf(box) : -1;
    return at < 0 ? '' : `${this.runs.first[at]}-${this.runs.last[at]}`;
  }

  /** Returns the viewport in which a box has the full width. */
  viewportOf(box) {
    return this.boxes.total_ns[box] > 0 ? { left: this.left(box), width: this.width(box) } : WHOLE;
  }

  /** Returns the function of a box; null for the root and for runs of narrow boxes. */
  functionOf(box) {
    const at = this.boxes.function[box];
    if (at < 0) return null;
    const f = this.functions;
    return {
      id: f.id[at],
      name: f.name[at],
      module: f.module[at],
      file: f.file[at],
      kind: f.kind[at],
      origin: f.origin?.[at] ?? '',
      full_name: f.full_name[at],
      matches: f.matches ? f.matches[at] === 1 : false,
    };
  }

  /** Returns the name of a box with a function: of a folded chain, its first and its last one. */
  labelOf(box) {
    const { name } = this.functions;
    const end = this.boxes.chain?.[box] ?? -1;
    return end < 0 ? name[this.boxes.function[box]] : `${name[this.boxes.function[box]]} … ${name[end]}`;
  }

  /** Returns the source file of the line of a box; "" if not known. */
  lineFileOf(box) {
    return this.line_files[this.boxes.line_file[box]] || (this.functionOf(box)?.file ?? '');
  }

  /** Returns how the function of a box runs ("compiled by C2"); "" if there is nothing to say. */
  tierOf(box) {
    return this.line_tiers[this.boxes.line_file[box]] ?? '';
  }

  isRun(box) {
    return this.boxes.hidden[box] > 0;
  }

  /** Returns the function ids from the root's child to the box; for a run of narrow boxes, to its parent. */
  pathOf(box) {
    const path = [];
    for (let at = box; at > 0; at = this.boxes.parent[at]) {
      if (!this.isRun(at)) path.push(this.functions.id[this.boxes.function[at]]);
    }
    return path.reverse();
  }

  childrenOf(box) {
    const [first, end] = this.rowRange(this.boxes.row[box] + 1);
    const children = [];
    for (let at = first; at < end; at++) if (this.boxes.parent[at] === box) children.push(at);
    return children;
  }

  /** Returns the box at the end of a path, or the run of narrow ones there; null if it is not in this view. */
  find(path, run = '') {
    const box = this.findBox(path);
    if (box === null || !run) return box;
    return this.childrenOf(box).find((child) => this.runOf(child) === run) ?? null;
  }

  findBox(path) {
    let box = 0;
    for (const id of path) {
      const next = this.childrenOf(box).find(
        (child) => !this.isRun(child) && this.functions.id[this.boxes.function[child]] === id,
      );
      if (next === undefined) return null;
      box = next;
    }
    return box;
  }

  /**
   * Returns the box of a row at a fraction of the whole width; null for a gap. Runs that are too narrow to be hit
   * are found from `near`, too.
   */
  hit(row, fraction, near = 0) {
    const [first, end] = this.rowRange(row);
    let low = first;
    let high = end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.left(middle) <= fraction) low = middle + 1;
      else high = middle;
    }
    const box = low - 1;
    for (const at of [box - 1, box + 1]) {
      if (at < first || at >= end || !this.isRun(at) || this.width(at) > near / 4) continue;
      if (Math.abs(fraction - this.left(at)) < near) return at;
    }
    return box >= first && fraction < this.left(box) + this.width(box) ? box : null;
  }

  /** Returns the neighbour of a box: "out" towards the root, "in" away from it, "left" or "right". */
  neighbour(box, direction) {
    if (direction === 'out') return this.boxes.parent[box] >= 0 ? this.boxes.parent[box] : null;
    if (direction === 'in') {
      const children = this.childrenOf(box);
      const weight = (child) => this.boxes.total_ns[child];
      return children.length ? children.reduce((a, b) => (weight(b) > weight(a) ? b : a)) : null;
    }
    const [first, end] = this.rowRange(this.boxes.row[box]);
    const next = direction === 'left' ? box - 1 : box + 1;
    return next >= first && next < end ? next : null;
  }
}

function startsOfRows(rows) {
  const starts = [0];
  for (let at = 1; at < rows.length; at++) {
    while (starts.length <= rows[at]) starts.push(at);
  }
  starts.push(rows.length);
  return starts;
}

/** Positions of rows in a scrolled area. Flame: row 0 at the bottom; icicle: at the top. */
export class Rows {
  constructor({ count, rowHeight, viewHeight, isFlame, padding = 0 }) {
    this.rowHeight = rowHeight;
    this.isFlame = isFlame;
    this.padding = padding; // space between the last row and the edge
    this.height = Math.max(viewHeight, count * rowHeight + padding);
  }

  /** Returns the top edge of a row, from the top of the scrolled area. */
  top(row) {
    return this.isFlame ? this.height - (row + 1) * this.rowHeight : row * this.rowHeight;
  }

  rowAt(y) {
    return Math.floor((this.isFlame ? this.height - y : y) / this.rowHeight);
  }

  /** Returns the first and last row that a part of the area shows, with one more on each side. */
  range(top, height) {
    const a = this.rowAt(top);
    const b = this.rowAt(top + height);
    return [Math.max(0, Math.min(a, b) - 1), Math.max(a, b) + 1];
  }

  /** Returns the scroll position that makes a row visible, `margin` rows from the root's side;
   * the given position if the row is visible already. */
  scrollTo(row, scrollTop, viewHeight, margin = 2) {
    const top = this.top(row);
    const isInSight = top >= scrollTop && top + this.rowHeight <= scrollTop + viewHeight;
    if (isInSight) return scrollTop;
    const wanted = this.isFlame
      ? top + (margin + 1) * this.rowHeight - viewHeight
      : top - margin * this.rowHeight;
    return Math.max(0, Math.min(this.height - viewHeight, wanted));
  }
}

/** Interpolates between two viewports; `done` is from 0 to 1. */
export function blend(from, to, done) {
  const eased = 1 - (1 - done) ** 3;
  return {
    left: from.left + (to.left - from.left) * eased,
    width: from.width + (to.width - from.width) * eased,
  };
}

const LEAST_CHARACTERS = 4; // around the ellipsis

/**
 * Shortens a label to a width, in its middle: names that begin alike often differ at their ends. `widthOf`
 * measures one character; the result may be empty.
 */
export function fitLabel(text, widthPx, widthOf) {
  const parts = characters(visible(text));
  const widths = parts.map(widthOf);
  let whole = 0;
  for (const width of widths) whole += width;
  if (whole <= widthPx) return parts.join('');
  let room = widthPx - widthOf('…');
  let head = 0;
  let tail = parts.length;
  // A character of the head, then one of the tail, as long as they fit.
  while (head < tail) {
    const isHead = head <= parts.length - tail;
    const width = widths[isHead ? head : tail - 1];
    if (width > room) break;
    room -= width;
    if (isHead) head++;
    else tail--;
  }
  if (head + parts.length - tail < LEAST_CHARACTERS) return '';
  return `${parts.slice(0, head).join('')}…${parts.slice(tail).join('')}`;
}
