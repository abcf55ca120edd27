// What the graph shows while there is nothing to draw.

import { byId, setText } from '../page/dom.js';

const NOTHING = { cpu: 'No CPU time', wall: 'No time', 'off-cpu': 'No off-CPU time' };

/** @param status model.Status, null before the first */
export function showEmpty({ total_ns: totalNs }, state, status) {
  byId('empty').hidden = totalNs > 0;
  const whose = `${state.gil ? ' with the GIL' : ''}${state.threads.length ? ' in the chosen threads' : ''}`;
  const isOver = ['ended', 'saved'].includes(status?.state);
  setText(byId('empty-title'), `${NOTHING[state.clock]} ${isOver ? 'was recorded' : 'yet'}${whose}`);
  setText(byId('empty-text'), isOver ? '' : 'The graph appears with the first samples.');
}
