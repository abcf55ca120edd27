// What the weights of views are: nanoseconds, or what a file of another profiler counts. No DOM.

import { formatBytes, formatCount, formatNs } from './format.js';
import { CLOCK_NAMES } from './state.js';

let counted = ''; // model.Status.weights: "time", "samples", "bytes"; "" for the time of a clock

let onlyClock = ''; // of a file that has one: whatever clock is chosen, it is that

/** Says what is counted, once: model.Status.weights, and the only clock if there is one. */
export function setWeights(weights, clock) {
  counted = weights;
  onlyClock = clock;
}

/** Formats a weight: "1.23 s", "12 345 samples", "1.23 MB". */
export function formatWeight(weight) {
  if (!counted || counted === 'time') return formatNs(weight);
  if (counted === 'bytes') return formatBytes(weight);
  return `${formatCount(weight)} ${weight === 1 ? counted.replace(/s$/, '') : counted}`;
}

/** Says what weights are: "CPU time", "time", "samples". */
export function weightName(clock) {
  return counted || `${CLOCK_NAMES[onlyClock || clock]} time`;
}

/** The same as the title of a column: "CPU", "Samples". */
export function weightTitle(clock) {
  return counted ? counted[0].toUpperCase() + counted.slice(1) : CLOCK_NAMES[onlyClock || clock];
}
