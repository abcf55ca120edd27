// Puts ids in place of the names that a URL had, once the server has said what they mean. No DOM.

import { labelOf } from './spelling.js';

/**
 * Returns what a view tells about the state: {patch, said}.
 *
 * patch: the parts of the state that change, null for none: a zoom to what is not there gets shorter, names become ids.
 * said: one line for the user about what a link had and this recording does not; "" for nothing.
 */
export function settled(state, { zoom, threads }) {
  const patch = {};
  const said = [];
  if (zoom.path.length < zoom.asked || String(zoom.path) !== String(state.zoom)) patch.zoom = zoom.path;
  if (state.run && !zoom.run) patch.run = '';
  const missing = state.zoom[zoom.path.length];
  if (zoom.path.length < zoom.asked && missing !== undefined) {
    const last = zoom.path.length ? labelOf(zoom.path.at(-1)) : 'everything';
    said.push(`${labelOf(missing)} has no time here: this is ${last}.`);
  }
  if (threads) {
    patch.threads = threads.chosen.map((each) => each.thread_id).sort((a, b) => a - b);
    if (threads.missing.length) said.push(`No thread ${threads.missing.join(', ')} here.`);
  }
  return { patch: Object.keys(patch).length ? patch : null, said: said.join(' ') };
}
