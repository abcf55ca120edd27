// Ranges of time, and lanes: what threads did over time, in bins. Times are milliseconds since the start of the
// recording unless the name says otherwise. No DOM.

import { formatShare } from './format.js';

/** What a thread does, in the order in which lanes stack it, from the bottom. */
export const ACTIVITIES = ['cpu', 'queued', 'lock', 'io', 'other', 'work', 'poll', 'sleep'];

export const ACTIVITY_WORDS = {
  cpu: 'on a CPU',
  queued: 'waiting for a CPU',
  lock: 'waiting for a lock or another thread',
  io: 'reading or writing',
  other: 'waiting for something else',
  work: 'waiting for work or a result of another thread',
  poll: 'waiting for events',
  sleep: 'sleeping',
  none: 'no data',
};
export const ACTIVITY_LABELS = {
  cpu: 'CPU',
  queued: 'waiting for a CPU',
  lock: 'lock',
  io: 'I/O',
  other: 'other wait',
  work: 'waiting for work',
  poll: 'events',
  sleep: 'sleep',
};

/** The ranges of the buttons: rolling, except for all. */
export const ROLLING = ['', 'last10000', 'last30000', 'last60000'];

const FULL = 50; // the character for a whole bin, less FIRST
const FIRST = '#'.charCodeAt(0);
const MIN_RANGE_MS = 1;
const TICKS_MS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3],
  ...[60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 14400e3, 43200e3, 86400e3],
];

// --- ranges ----------------------------------------------------------------------------------------

/** Returns {from, to, isRolling} of a range as the state has it; null for the whole recording. */
export function parseRange(text, durationMs) {
  const last = /^last(\d+)$/.exec(text);
  if (last) return { from: Math.max(0, durationMs - Number(last[1])), to: durationMs, isRolling: true };
  const found = /^(\d+)-(\d+)$/.exec(text);
  return found && { from: Number(found[1]), to: Number(found[2]), isRolling: false };
}

/** Returns a range for the state: whole milliseconds within the recording, at least one. */
export function toRange(from, to, durationMs) {
  const [low, high] = from <= to ? [from, to] : [to, from];
  const start = Math.round(Math.min(Math.max(0, low), Math.max(0, durationMs - MIN_RANGE_MS)));
  const end = Math.max(start + MIN_RANGE_MS, Math.round(Math.min(high, durationMs)));
  return `${start}-${end}`;
}

/**
 * Returns the range after an arrow key: it moves by a step; with `isWider` only its end does. A range that rolls is
 * pinned first; without one, a tenth of the shown time at its end is chosen.
 */
export function nudge(range, key, isWider, shown, durationMs) {
  const stepMs = Math.max(1, (shown.to - shown.from) / 50);
  const by = key === 'ArrowLeft' ? -stepMs : stepMs;
  if (!range) return toRange(shown.to - (shown.to - shown.from) / 10, shown.to, durationMs);
  if (isWider) return toRange(range.from, Math.max(range.from + MIN_RANGE_MS, range.to + by), durationMs);
  const width = range.to - range.from;
  const from = Math.min(Math.max(0, range.from + by), Math.max(0, durationMs - width));
  return toRange(from, from + width, durationMs);
}

/** Zooms the shown time by a factor around a moment, within the recording. */
export function zoomShown(shown, factor, at, durationMs) {
  const width = Math.min(Math.max((shown.to - shown.from) * factor, 10), durationMs);
  const share = (at - shown.from) / Math.max(1e-9, shown.to - shown.from);
  const from = Math.min(Math.max(0, at - share * width), durationMs - width);
  return { from, to: from + width };
}

/** Moves the shown time, within the recording. */
export function panShown(shown, by, durationMs) {
  const width = shown.to - shown.from;
  const from = Math.min(Math.max(0, shown.from + by), Math.max(0, durationMs - width));
  return { from, to: from + width };
}

/** Formats a moment: "1:02.3" with as many digits as `stepMs` needs. */
export function formatMoment(ms, stepMs = 100) {
  const digits = stepMs >= 1000 ? 0 : stepMs >= 100 ? 1 : stepMs >= 10 ? 2 : 3;
  const scale = 10 ** digits;
  const rounded = Math.round((ms / 1000) * scale) / scale;
  const hours = Math.floor(rounded / 3600);
  const minutes = Math.floor((rounded % 3600) / 60);
  const seconds = (rounded % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, '0');
  if (hours) return `${hours}:${String(minutes).padStart(2, '0')}:${seconds}`;
  return `${minutes}:${seconds}`;
}

/** Formats a range: "0:12.0 – 0:20.5 (8.5 s)". */
export function formatRange({ from, to }) {
  const width = to - from;
  const stepMs = width / 50;
  const text = width >= 120e3 ? `${Math.round(width / 60e3)} min` : width >= 1000 ? `${Number((width / 1000).toPrecision(3))} s` : `${Math.round(width)} ms`;
  return `${formatMoment(from, stepMs)} – ${formatMoment(to, stepMs)} (${text})`;
}

/**
 * Formats the time of day of a moment: "14:02:10", on another day "2026-11-28 14:02:10"; "" if it is not known.
 *
 * @param startedS when the recording began, seconds since 1970
 */
export function formatTimeOfDay(startedS, ms, now = new Date()) {
  if (!(startedS > 0)) return '';
  const at = new Date(startedS * 1000 + ms);
  const two = (value) => String(value).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} `;
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':');
  return at.toDateString() === now.toDateString() ? time : day + time;
}

/** Returns the moments at which the axis has labels, at least `gapPx` apart. */
export function ticks({ from, to }, widthPx, gapPx = 84) {
  const least = ((to - from) * gapPx) / Math.max(1, widthPx);
  const stepMs = TICKS_MS.find((each) => each >= least) ?? Math.ceil(least / 86400e3) * 86400e3;
  const found = [];
  for (let at = Math.ceil(from / stepMs) * stepMs; at <= to; at += stepMs) found.push(at);
  return { stepMs, at: found };
}

// --- lanes -----------------------------------------------------------------------------------------

/** Where bins lie, in milliseconds. */
export class Bins {
  constructor({ start_ns: start, step_ns: step, level, count }) {
    Object.assign(this, { start: start / 1e6, step: step / 1e6, level, count });
  }

  get end() {
    return this.start + this.step * this.count;
  }

  left(bin) {
    return this.start + this.step * bin;
  }

  /** Returns the bin at a moment; null outside. */
  at(ms) {
    const bin = Math.floor((ms - this.start) / this.step);
    return bin >= 0 && bin < this.count ? bin : null;
  }
}

/** One lane: the share of each bin in each activity. */
export class Lane {
  constructor(answer, count) {
    Object.assign(this, answer);
    this.shares = {};
    for (const [activity, text] of Object.entries(answer.planes)) this.shares[activity] = decodePlane(text, count);
    delete this.planes;
  }

  /** Returns the share of a bin in an activity, 0 … 1. */
  share(activity, bin) {
    return (this.shares[activity]?.[bin] ?? 0) / FULL;
  }

  /** Returns the highest share of an activity. */
  highest(activity) {
    return (this.shares[activity] ?? []).reduce((most, each) => Math.max(most, each), 0) / FULL;
  }

  /** Returns whole shares for the bins that have at least this share of an activity, and none for the others. */
  where(activity, least) {
    return (this.shares[activity] ?? new Uint8Array(0)).map((share) => (share >= Math.max(1, least * FULL) ? FULL : 0));
  }

  /** Returns [[activity, share]] of a bin in stacking order; what is missing is 'none'. */
  parts(bin) {
    const found = [];
    let none = 1;
    for (const activity of ACTIVITIES) {
      const share = this.share(activity, bin);
      if (share > 0) found.push([activity, share]);
      none -= share;
    }
    if (none > 1.5 / FULL) found.push(['none', none]);
    return found;
  }

  /** Replaces the bins from `offset` on by those of a newer lane. */
  splice(newer, offset, count) {
    const names = new Set([...Object.keys(this.shares), ...Object.keys(newer.shares)]);
    const length = offset + count;
    for (const name of names) {
      const joined = new Uint8Array(length);
      joined.set((this.shares[name] ?? joined).subarray(0, offset));
      if (newer.shares[name]) joined.set(newer.shares[name], offset);
      this.shares[name] = joined;
    }
  }
}

function decodePlane(text, count) {
  const found = new Uint8Array(count);
  for (let at = 0; at < text.length; at++) found[at] = text.charCodeAt(at) - FIRST;
  return found;
}

/** The lanes of one answer, and of the newer bins that came after it. */
export class Lanes {
  constructor(answer) {
    this.bins = new Bins(answer.bins);
    const lane = (each) => each && new Lane(each, this.bins.count);
    this.revision = answer.revision;
    this.durationMs = answer.duration_ns / 1e6;
    this.evenMs = answer.even_ns / 1e6;
    this.busy = answer.n_busy;
    this.threads = answer.n_threads;
    this.all = lane(answer.all);
    this.lanes = answer.lanes.map(lane);
    this.rest = lane(answer.rest);
    this.gil = lane(answer.gil);
    this.overviewBins = answer.overview_bins && new Bins(answer.overview_bins);
    this.overview = answer.overview && new Lane(answer.overview, this.overviewBins.count);
  }

  get ids() {
    return this.lanes.map(({ thread_id: id }) => id);
  }

  /** Returns the name of a lane's thread; with its number if others are called the same. */
  label({ name, tid, thread_ids: ids = [], processes }) {
    if (ids.length) return processes > 1 ? `${name || 'process'} × ${processes}` : name || 'process';
    if (!name) return `thread ${tid}`;
    return this.lanes.some((other) => other.name === name && other.tid !== tid) ? `${name} ${tid}` : name;
  }

  /** Takes newer bins of the same lanes. Returns false if they do not fit. */
  extend(newer) {
    const offset = Math.round((newer.bins.start - this.bins.start) / this.bins.step);
    const fits =
      newer.bins.level === this.bins.level &&
      String(newer.ids) === String(this.ids) &&
      offset >= 0 &&
      offset <= this.bins.count &&
      Boolean(newer.rest) === Boolean(this.rest) &&
      Boolean(newer.gil) === Boolean(this.gil);
    if (!fits) return false;
    const pairs = [[this.all, newer.all], [this.rest, newer.rest], [this.gil, newer.gil]];
    for (const [mine, other] of [...pairs, ...this.lanes.map((each, at) => [each, newer.lanes[at]])]) {
      if (mine) mine.splice(other, offset, newer.bins.count);
    }
    this.bins.count = offset + newer.bins.count;
    Object.assign(this, { revision: newer.revision, durationMs: newer.durationMs, evenMs: newer.evenMs });
    if (newer.overview) Object.assign(this, { overview: newer.overview, overviewBins: newer.overviewBins });
    return true;
  }
}

/** Returns what a lane's bin says, as text: "62 % on a CPU, 38 % waiting for events". */
export function describeParts(parts) {
  const sorted = [...parts].sort((a, b) => b[1] - a[1]);
  return sorted
    .slice(0, 3)
    .map(([activity, share]) => `${Math.round(100 * share)} % ${ACTIVITY_WORDS[activity]}`)
    .join(', ');
}

/** Returns the shares of a lane's exact sums as text. */
export function describeSums(lane, activities) {
  const whole = lane.sums_ns.reduce((sum, each) => sum + each, 0);
  return activities
    .map((activity, at) => [activity, lane.sums_ns[at]])
    .filter(([, ns]) => ns > 0)
    .sort((a, b) => b[1] - a[1])
    .slice(0, 3)
    .map(([activity, ns]) => `${formatShare(ns, whole)} ${ACTIVITY_WORDS[activity]}`)
    .join(', ');
}
