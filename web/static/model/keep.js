// What is kept of a view: names of files, and stacks as text. No DOM.

import { DEFAULTS, toHash } from './state.js';
import { formatShare, targetName } from './format.js';
import { formatWeight, weightName } from './weight.js';
import { describeStep, describeTarget } from './shape.js';
import { formatRange, parseRange } from './timeline.js';

/** Returns a good name for a file, of characters that every system allows, with the moment: as web/exports.py. */
export function fileName(status, state, extension, now = new Date()) {
  const two = (value) => String(value).padStart(2, '0');
  const day = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  const moment = `${day}-${two(now.getHours())}${two(now.getMinutes())}`;
  const parts = ['flametap', targetName(status ?? { command: '' }), status?.pid, state.clock, state.range, moment];
  const words = parts.filter(Boolean).map((part) => String(part).replace(/[^\w.-]+/g, '_').slice(0, 60));
  return `${words.join('-')}.${extension}`;
}

/** Returns the hash with which a report opens as its page was: what it counts is in its data already. */
export function reportHash({ clock, tab, sort, layout, beside, zoom, search }) {
  return toHash({ ...DEFAULTS, clock, tab, sort, layout, beside, zoom, search });
}

/** Has a report open with a hash. @param html its text */
export function openingAt(html, hash) {
  const value = hash.replace(/[&"<>]/g, (character) => `&#${character.charCodeAt(0)};`);
  return hash ? html.replace('<html data-report ', () => `<html data-report data-view="${value}" `) : html;
}

/** Returns what of the recording is shown, a few words for each restriction; none if all of it is. */
export function shownPart(state, durationMs) {
  const range = parseRange(state.range, durationMs);
  const words = range ? [formatRange(range)] : [];
  const count = state.threads.length;
  if (count) words.push(`${count} thread${count === 1 ? '' : 's'}`);
  if (state.language !== 'all') words.push(`${state.language === 'python' ? 'Python' : 'native'} functions`);
  if (state.plumbing) words.push('with interpreter internals');
  if (state.gil) words.push('GIL only');
  for (const step of state.shape) {
    const { label, target } = describeStep(step);
    words.push(target ? `${label} ${target}` : label);
  }
  if (state.sandwich) words.push(`stacks through ${describeTarget(state.sandwich)}`);
  return words;
}

/** Returns a stack as text: its weight, then one function a line, the outermost first. */
export function stackText(view, box) {
  const lines = [];
  for (let at = box; at > 0; at = view.boxes.parent[at]) {
    const f = view.functionOf(at);
    if (f) lines.push(f.module ? `${f.full_name || f.name} (${f.module})` : f.name);
  }
  const ns = view.boxes.total_ns[box];
  const head = `${formatShare(ns, view.total_ns)} of the ${weightName(view.asked.clock)}, ${formatWeight(ns)}`;
  return [head, ...lines.reverse(), ''].join('\n');
}

/** Returns the range that shows what `range` shows now, and goes on showing it. Times are milliseconds. */
export function frozenRange(range, nowMs) {
  const last = /^last(\d+)$/.exec(range);
  if (last) return `${Math.max(0, nowMs - Number(last[1]))}-${nowMs}`;
  const [start, end] = range ? range.split('-').map(Number) : [0, nowMs];
  return `${start}-${Math.max(start + 1, Math.min(end, nowMs))}`;
}

/** Returns the end of a frozen range. */
export function frozenAtMs(range) {
  return Number(range.split('-')[1]);
}
