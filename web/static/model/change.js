// Changes between two ranges of time, in words and colours. No DOM.
//
// A grade says how sure a change is (profiler/tree/comparison.py): 0 noise, 1 likely, 2 certain; below 0 for less.

import { oklch } from './color.js';
import { isFile, otherName } from './files.js';
import { formatNs, formatShare } from './format.js';
import { formatMoment } from './timeline.js';

const SURE = ['noise', 'likely', 'certain'];
// Red and blue differ for people who see few hues, too; each has a sign, and less has stripes.
const HUES = { more: 25, less: 252 };
const SHADES = {
  light: { none: [0.9, 0.004, 260], weak: [0.865, 0.05], strong: [0.765, 0.115], stripe: '#1c1b2226' },
  dark: { none: [0.34, 0.006, 260], weak: [0.41, 0.055], strong: [0.5, 0.115], stripe: '#ffffff24' },
};

/** Returns a range of the state in words: "0:10 – 0:20", "the last 5 s", "the rest", "the other file", its name, "all". */
export function describeRange(text) {
  if (text === 'rest') return 'the rest';
  if (isFile(text)) return otherName(text);
  if (!text) return 'all';
  if (text.startsWith('last')) return `the last ${formatNs(Number(text.slice(4)) * 1e6)}`;
  const [from, to] = text.split('-').map(Number);
  return [from, to].map((ms) => formatMoment(ms, (to - from) / 50).replace(/\.0+$/, '')).join(' – ');
}

/** Returns the weights of both sides as parts of their sizes: {here, there, difference}. */
export function sidesOf({ here_ns: hereSize, there_ns: thereSize }, hereNs, thereNs) {
  const here = hereSize > 0 ? hereNs / hereSize : 0;
  const there = thereSize > 0 ? thereNs / thereSize : 0;
  return { here, there, difference: here - there };
}

/** Formats a part: of shares "12.3 %", of times per second "350 ms/s". */
export function formatPart(part, isShare) {
  if (isShare) return formatShare(part, 1);
  return part > 0 ? `${formatNs(part * 1e9)}/s` : '0';
}

/** Formats a difference with its sign: "+3.2 points", "−35 ms/s". */
export function formatDifference(difference, isShare) {
  const sign = difference > 0 ? '+' : difference < 0 ? '−' : '±';
  const size = Math.abs(difference);
  if (!isShare) return size > 0 ? `${sign}${formatNs(size * 1e9)}/s` : '±0';
  const points = 100 * size;
  const text = points >= 10 ? points.toFixed(0) : points >= 0.095 ? points.toFixed(1) : points.toFixed(2);
  return `${text === '0.00' ? '±0' : sign + text} points`;
}

/** Returns how sure a change is, in a word. */
export function sureness(grade) {
  return SURE[Math.abs(grade)];
}

/** Returns the sign of a change: ▲ more, ▼ less, "" for noise. */
export function signOf(grade) {
  return grade > 0 ? '▲' : grade < 0 ? '▼' : '';
}

/** Returns the colour of a change; grade 0 is grey. */
export function changeColor(theme, grade, { here, there }) {
  const { none, weak, strong } = SHADES[theme];
  if (!grade) return oklch(...none);
  // Twice as much, or half, has the full colour.
  const most = Math.max(here, there);
  const size = most > 0 ? Math.min(1, (2 * Math.abs(here - there)) / most) : 0;
  const mix = (at) => weak[at] + (strong[at] - weak[at]) * size;
  return oklch(mix(0), mix(1), grade > 0 ? HUES.more : HUES.less);
}

export function stripeColor(theme) {
  return SHADES[theme].stripe;
}
