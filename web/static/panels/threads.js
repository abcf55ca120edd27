// The thread selector: a button, and a table of threads below it.

import { bar, byId, h, setText } from '../page/dom.js';
import { describeGil } from '../model/explain.js';
import { formatNs, formatPlural, formatShare } from '../model/format.js';

const WEIGHTS = { cpu: 'cpu_ns', wall: 'wall_ns', 'off-cpu': 'off_cpu_ns' };
const ORDERS = {
  name: (a, b) => a.name.localeCompare(b.name) || a.tid - b.tid,
  tid: (a, b) => a.tid - b.tid,
  held: (a, b) => b.gil_held_ns - a.gil_held_ns,
  awaited: (a, b) => b.gil_awaited_ns - a.gil_awaited_ns,
  waits: (a, b) => a.waits_in.localeCompare(b.waits_in),
};

export class Threads {
  /** @param onChoose called with the chosen thread ids, ascending; none means all */
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.button = byId('threads-button');
    this.label = byId('threads-label');
    this.panel = byId('threads-panel');
    this.body = byId('threads-body');
    this.threads = [];
    this.chosen = [];
    this.clock = 'cpu';
    this.status = null;
    this.sort = 'weight';
    this.rows = new Map(); // thread id → its row; rows keep their order while the panel is open
    this.listen();
  }

  listen() {
    this.button.addEventListener('click', () => this.toggle());
    byId('threads-all').addEventListener('click', () => this.onChoose([]));
    byId('threads-close').addEventListener('click', () => this.close());
    this.panel.querySelector('thead').addEventListener('click', (event) => {
      const button = event.target.closest('button[data-sort]');
      if (!button) return;
      this.sort = button.dataset.sort;
      this.order();
    });
    document.addEventListener('pointerdown', (event) => {
      const isOurs = this.panel.contains(event.target) || this.button.contains(event.target);
      if (!this.panel.hidden && !isOurs) this.toggle(false);
    });
  }

  toggle(isOpen = this.panel.hidden) {
    this.panel.hidden = !isOpen;
    this.button.setAttribute('aria-expanded', String(isOpen));
    if (isOpen) {
      this.render();
      this.order();
    }
  }

  /** Closes the panel. Returns whether it was open. */
  close() {
    if (this.panel.hidden) return false;
    this.toggle(false);
    this.button.focus();
    return true;
  }

  /** @param status model.Status; the last one if it is missing */
  update(threads, chosen, clock, status = this.status) {
    const isOtherClock = clock !== this.clock;
    Object.assign(this, { threads, chosen, clock, status });
    setText(this.label, this.describe());
    this.button.classList.toggle('is-active', chosen.length > 0);
    if (this.panel.hidden) return;
    this.render();
    if (isOtherClock) this.order();
  }

  describe() {
    if (!this.chosen.length) {
      return this.threads.length ? `All ${formatPlural(this.threads.length, 'thread')}` : 'All threads';
    }
    if (this.chosen.length > 1) return `${this.chosen.length} of ${this.threads.length} threads`;
    const only = this.threads.find(({ thread_id: id }) => id === this.chosen[0]);
    return only ? `${only.name} (${only.tid})` : '1 thread';
  }

  weight(thread) {
    return thread[WEIGHTS[this.clock]];
  }

  render() {
    const most = Math.max(1, ...this.threads.map((thread) => this.weight(thread)));
    for (const thread of this.threads) {
      let row = this.rows.get(thread.thread_id);
      if (!row) {
        row = this.makeRow(thread);
        this.rows.set(thread.thread_id, row);
        this.body.append(row.element);
      }
      const isChosen = this.chosen.includes(thread.thread_id);
      row.box.checked = isChosen;
      row.element.classList.toggle('is-chosen', isChosen);
      row.element.classList.toggle('has-exited', thread.exited);
      setText(row.name, thread.name || '(no name)');
      row.name.title = thread.comm ? `${thread.name} (the kernel's name: ${thread.comm})` : '';
      setText(row.weight, formatNs(this.weight(thread)));
      row.meter.style.width = `${(100 * this.weight(thread)) / most}%`;
      setText(row.held, formatShare(thread.gil_held_ns, this.status?.duration_ns ?? 0));
      setText(row.awaited, formatShare(thread.gil_awaited_ns, this.status?.duration_ns ?? 0));
      setText(row.waits, thread.exited ? 'ended' : thread.waits_in || 'running');
      row.waits.title = thread.signals_blocked ? 'Blocks our signal: sampled only while it waits' : '';
      row.waits.classList.toggle('dim', !thread.waits_in);
    }
    setText(byId('threads-weight-label'), { cpu: 'CPU', wall: 'Wall', 'off-cpu': 'Off-CPU' }[this.clock]);
    this.showGil();
    byId('threads-all').setAttribute('aria-pressed', String(this.chosen.length === 0));
  }

  /** Shows what is known of the GIL, if the process has one. */
  showGil() {
    const hasGil = this.status?.has_gil ?? false;
    for (const cell of this.panel.querySelectorAll('.gil')) cell.hidden = !hasGil;
    byId('threads-gil').hidden = !hasGil;
    if (hasGil) setText(byId('threads-gil'), describeGil(this.threads, this.status.duration_ns));
  }

  makeRow(thread) {
    const row = {
      box: h('input', { type: 'checkbox', 'aria-label': `Show only ${thread.name} ${thread.tid}` }),
      name: h('span', { class: 'thread-name' }),
      weight: h('span', { class: 'number' }),
      meter: bar('fill', 0),
      held: h('td', { class: 'number gil', hidden: true }),
      awaited: h('td', { class: 'number gil', hidden: true }),
      waits: h('td', { class: 'waits' }),
    };
    row.element = h(
      'tr',
      {},
      h('td', {}, h('label', {}, row.box, row.name)),
      h('td', { class: 'number dim' }, String(thread.tid)),
      h('td', { class: 'weight' }, row.weight, h('span', { class: 'track' }, row.meter)),
      row.held,
      row.awaited,
      row.waits,
    );
    row.element.addEventListener('click', (event) => {
      // A click on the row shows this thread alone; a click on the check box adds or removes it.
      if (event.target === row.box) this.flip(thread.thread_id);
      else {
        event.preventDefault();
        this.onChoose([thread.thread_id]);
      }
    });
    return row;
  }

  flip(id) {
    const chosen = new Set(this.chosen);
    if (!chosen.delete(id)) chosen.add(id);
    this.onChoose([...chosen].sort((a, b) => a - b));
  }

  order() {
    const byWeight = (a, b) => this.weight(b) - this.weight(a);
    const sorted = [...this.threads].sort(ORDERS[this.sort] ?? byWeight);
    this.body.append(...sorted.map(({ thread_id: id }) => this.rows.get(id).element));
    for (const header of this.panel.querySelectorAll('th')) {
      const isIt = header.querySelector('button')?.dataset.sort === this.sort;
      const direction = ['weight', 'held', 'awaited'].includes(this.sort) ? 'descending' : 'ascending';
      if (isIt) header.setAttribute('aria-sort', direction);
      else header.removeAttribute('aria-sort');
    }
  }
}
