// The recordings of one server, by number from 1: the page shows one of them, and compares it with another. In the
// state, "file3" is the recording 3 to compare with, and "file" the first other one. No DOM.

import { namedPath, namedThreads } from './spelling.js';

let names = new Map(); // number → name, of the others

/** Notes the other recordings: [number, name] each, in their order. */
export function learnOthers(list) {
  names = new Map(list);
}

/** Returns whether the state compares with another recording. */
export function isFile(compare) {
  return /^file\d*$/.test(compare);
}

function numberOf(compare) {
  return Number(compare.slice('file'.length)) || [...names.keys()][0];
}

/** Returns how the state says that the shown recording is compared with another. */
export function compareWith(number) {
  return names.size > 1 ? `file${number}` : 'file';
}

/** Returns what a recording to compare with is called: its name, if there are several. */
export function otherName(compare) {
  if (names.size < 2) return 'the other file';
  return names.get(numberOf(compare)) ?? 'a file that is not here';
}

/**
 * Returns the state with which another recording is shown. What has a name goes with it; what is said in numbers of
 * this recording does not. A comparison with the one that is shown then is turned round.
 */
export function stateThere(state, own, next) {
  const compared = isFile(state.compare) ? numberOf(state.compare) : 0;
  const other = compared === next ? own : compared;
  return {
    ...state,
    zoom: namedPath(state.zoom),
    threads: namedThreads(state.threads),
    run: '',
    range: state.range.startsWith('last') ? state.range : '',
    compare: other ? compareWith(other) : '',
    sort: state.compare && !other ? 'self' : state.sort,
  };
}
