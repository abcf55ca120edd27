// What the graph shows while there is nothing to draw: why, and what would show something.

import { byId, h, setText } from '../page/dom.js';
import { reconcile } from '../page/reconcile.js';
import { formatNs } from '../model/format.js';
import { fetchJson } from '../server/connection.js';

const NOTHING = { cpu: 'No CPU time', wall: 'No time', 'off-cpu': 'No off-CPU time' };
const ASK_GAP_MS = 2000;
// What can be undone, if it is set: part of the state → its value at the start, and the button.
const UNDO = {
  threads: [[], 'All threads'],
  range: ['', 'All of the recording'],
  gil: [false, 'Time without the GIL, too'],
};

export class Empty {
  /** @param onChange called with a part of the state that shows more */
  constructor(onChange) {
    this.onChange = onChange;
    this.found = null; // the answer about what else there is
    this.askedAt = -Infinity;
  }

  /** @param status model.Status, null before the first */
  show(view, state, status) {
    const { total_ns: totalNs } = view;
    Object.assign(this, { view, state, status });
    byId('empty').hidden = totalNs > 0;
    if (totalNs > 0) return;
    const isOver = ['ended', 'saved'].includes(status?.state);
    const whose = `${state.gil ? ' with the GIL' : ''}${state.threads.length ? ' in the chosen threads' : ''}${state.range ? ' in this time' : ''}`;
    setText(byId('empty-title'), `${NOTHING[state.clock]} ${isOver ? 'was recorded' : 'yet'}${whose}`);
    const isSleeping = state.clock === 'cpu' && this.found?.wall_ns > 0;
    setText(
      byId('empty-text'),
      isSleeping ? 'Its threads wait.' : isOver ? '' : 'The graph appears with the first samples.',
    );
    reconcile(byId('empty-offers'), this.offers(isSleeping));
    this.ask();
  }

  offers(isSleeping) {
    const offer = (text, patch) =>
      h('button', { type: 'button', class: 'button', 'data-key': text, onclick: () => this.onChange(patch) }, text);
    const undo = Object.entries(UNDO).filter(([name]) => String(this.state[name]) !== String(UNDO[name][0]));
    return [
      isSleeping && offer('Show what they wait for', { clock: 'wall' }),
      undo.map(([name, [value, text]]) => offer(text, { [name]: value })),
      (this.found?.children ?? []).map(({ pid, command, cpu_ns: cpuNs }) =>
        h(
          'p',
          { class: 'dim', 'data-key': `child ${pid}` },
          `Its child ${command} has used ${formatNs(cpuNs)} of CPU time: `,
          h('code', {}, `flametap ${pid}`),
        ),
      ),
    ];
  }

  /** Asks what there is besides: time that threads spend waiting, child processes that work. */
  async ask() {
    const now = performance.now();
    if (now < this.askedAt + ASK_GAP_MS) return;
    this.askedAt = now;
    try {
      this.found = await fetchJson('elsewhere');
    } catch {
      return; // the next view asks again
    }
    this.show(this.view, this.state, this.status);
  }
}
