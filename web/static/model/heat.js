// Heat maps: cells by time, and by the offset within the second or by how long waits lasted. Times are milliseconds
// since the start of the recording. No DOM.

import { formatNs } from './format.js';

const FIRST = '#'.charCodeAt(0);
const FULL = 50;
const SHORTEST_NS = 1024; // of the lowest row of waits; two rows for each doubling
// Of the cells with CPU time: so many are the palest, and all but so many are below the strongest colour.
const LOW_SHARE = 0.1;
const HIGH_SHARE = 0.98;
const PALEST = 5; // of 50: not nothing
const CONTRAST = 1.5;

/** One answer to a heat map request. */
export class Heat {
  constructor({ start_ns: start, step_ns: step, columns, rows, planes, most }) {
    Object.assign(this, { start: start / 1e6, step: step / 1e6, columns, rows, most });
    this.planes = Object.entries(planes).map(([activity, text]) => [activity, Uint8Array.from(text, (each) => each.charCodeAt(0) - FIRST)]);
  }

  left(column) {
    return this.start + column * this.step;
  }

  /** Returns the column at a moment; null outside. */
  column(ms) {
    const column = Math.floor((ms - this.start) / this.step);
    return column >= 0 && column < this.columns ? column : null;
  }

  /** Returns the activity that is strongest in a cell, and how strong, 0 … 50. */
  top(column, row) {
    let found = ['', 0];
    for (const [activity, cells] of this.planes) {
      const level = cells[column * this.rows + row];
      if (level > found[1]) found = [activity, level];
    }
    return found;
  }

  /** Returns the value of a cell on a scale from 0 to `most`. */
  value(activity, column, row) {
    const cells = this.planes.find(([name]) => name === activity)?.[1];
    return cells ? valueOf(cells[column * this.rows + row]) * this.most : 0;
  }

  /**
   * Returns how strong the colour of each level of CPU time is, 0 … 50, and the number of CPUs from which on it is the
   * strongest. Colours spread over what is common: a steady load is pale, and what stands out of it is not, even if a
   * few cells are far above all others.
   */
  shades() {
    const counts = new Array(FULL + 1).fill(0);
    for (const [, cells] of this.planes) for (const level of cells) counts[level]++;
    counts[0] = 0;
    const high = valueOf(quantile(counts, HIGH_SHARE));
    const low = Math.min(valueOf(quantile(counts, LOW_SHARE)), high / 2);
    const part = (level) => Math.min(1, Math.max(0, (valueOf(level) - low) / (high - low)));
    const shade = (level) => PALEST + (FULL - PALEST) * part(level) ** CONTRAST;
    return { shades: counts.map((_, level) => (level && high ? Math.round(shade(level)) : 0)), from: high * this.most };
  }

  /** Returns [[activity, number of waits]] of a cell, the most first. */
  causes(column, row) {
    return this.planes
      .map(([activity, cells]) => [activity, cells[column * this.rows + row]])
      .filter(([, level]) => level)
      .sort((a, b) => b[1] - a[1])
      .map(([activity, level]) => [activity, Math.max(1, Math.round(Math.expm1((level / FULL) * Math.log1p(this.most))))]);
  }

  /**
   * Returns where a range lies in a map of seconds: at most three rectangles, the rest of the first second, whole ones,
   * and the beginning of the last. `low` and `high` are shares of the height.
   */
  parts({ from, to }) {
    const { step, start } = this;
    if (step > 1000) return [{ from, to, low: 0, high: 1 }];
    const first = Math.floor((from - start) / step);
    const last = Math.max(first, Math.ceil((to - start) / step) - 1);
    const share = (ms, column) => (ms - this.left(column)) / step;
    if (first === last) {
      return [{ from: this.left(first), to: this.left(first + 1), low: share(from, first), high: share(to, last) }];
    }
    const found = [{ from: this.left(first), to: this.left(first + 1), low: share(from, first), high: 1 }];
    if (last > first + 1) found.push({ from: this.left(first + 1), to: this.left(last), low: 0, high: 1 });
    found.push({ from: this.left(last), to: this.left(last + 1), low: 0, high: share(to, last) });
    return found;
  }
}

/** Returns the share of `most` that a level of CPU time stands for. */
function valueOf(level) {
  return (level / FULL) ** 2;
}

/** Returns the level that a share of all cells are not above. */
function quantile(counts, share) {
  const all = counts.reduce((sum, each) => sum + each, 0);
  let sum = 0;
  const found = counts.findIndex((count) => (sum += count) >= share * all && sum > 0);
  return Math.max(0, found);
}

/**
 * Returns the time from one cell of a map of seconds to another, both included. In columns of several seconds, whole
 * columns.
 */
export function cellRange(heat, a, b) {
  const inside = ({ column, ms }) => column ?? (ms < heat.start ? 0 : heat.columns - 1);
  const isWhole = heat.step > 1000;
  const row = heat.step / heat.rows;
  const from = (cell) => heat.left(inside(cell)) + (isWhole ? 0 : cell.row * row);
  const to = (cell) => heat.left(inside(cell)) + (isWhole ? heat.step : (cell.row + 1) * row);
  return { from: Math.min(from(a), from(b)), to: Math.max(to(a), to(b)) };
}

/** Returns the durations that the axis of waits names, with the share of its height at which they are. */
export function waitTicks(rows) {
  const named = [['1 µs', 1e3], ['1 ms', 1e6], ['1 s', 1e9], ['1 min', 60e9]];
  return named.map(([label, ns]) => [label, Math.max(0, 2 * Math.log2(ns / SHORTEST_NS)) / rows]);
}

/** Formats how long the waits of a row lasted. */
export function formatWaitRow(row) {
  const least = SHORTEST_NS * 2 ** (row / 2);
  return `waits of ${formatNs(least)} to ${formatNs(least * Math.SQRT2)}`;
}
