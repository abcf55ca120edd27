// The thread selector: a button, and a list of threads below it. The server sends the part of the list that
// is in sight, as there may be thousands.

import { bar, byId, choice, h, setText } from '../page/dom.js';
import { rem } from '../page/appearance.js';
import { describeGil, describeWait } from '../model/explain.js';
import { formatCount, formatPlural, formatShare } from '../model/format.js';
import { formatWeight, weightTitle } from '../model/weight.js';
import { learnThreads, parseThreads } from '../model/spelling.js';
import { HttpError, fetchJson } from '../server/connection.js';
import { VirtualList, partsOf } from './virtual_list.js';

const WEIGHTS = { cpu: 'cpu_ns', wall: 'wall_ns', 'off-cpu': 'off_cpu_ns' };
const DESCENDING = ['weight', 'held', 'awaited'];
const WINDOW = 100; // rows of one request
const MOST_NAMED = 16; // chosen threads whose names are asked for
const TYPING_GAP_MS = 150;
const SCROLL_GAP_MS = 60;

export class Threads {
  /**
   * @param onChoose called with the chosen thread ids, ascending; none means all
   * @param onSplit called with what is to be shown apart: "" for nothing, "program", "process", "thread"
   */
  constructor(onChoose, onSplit) {
    this.onChoose = onChoose;
    this.showBy = choice(byId('by'), onSplit);
    this.button = byId('threads-button');
    this.label = byId('threads-label');
    this.panel = byId('threads-panel');
    this.filter = byId('threads-filter');
    this.groups = byId('threads-groups');
    this.count = 0; // of all threads
    this.chosen = [];
    this.isChosen = new Set();
    this.clock = 'cpu';
    this.range = ''; // of time, as in the state
    this.status = null;
    this.sort = 'weight';
    this.names = new Map(); // thread id → "name (tid)" of chosen threads
    this.isMoving = false; // rows at another place were asked for
    this.wanted = ''; // the filter of the rows
    this.forget();
    this.list = new VirtualList(partsOf('threads'), {
      rowHeight: () => Math.round((matchMedia('(pointer: coarse)').matches ? 44 : 32) * rem()),
      make: (at) => this.row(at),
      onScroll: () => this.scrolled(),
    });
    this.listen();
  }

  listen() {
    this.button.addEventListener('click', () => this.toggle());
    byId('threads-all').addEventListener('click', () => this.onChoose([]));
    byId('threads-matching').addEventListener('click', () => this.onChoose(parseThreads(this.answer.matching_ids)));
    byId('threads-close').addEventListener('click', () => this.close());
    this.filter.addEventListener('input', () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.begin(), TYPING_GAP_MS);
    });
    this.groups.addEventListener('change', () => this.begin());
    byId('threads-titles').addEventListener('click', (event) => {
      const button = event.target.closest('button[data-sort]');
      if (!button) return;
      this.sort = button.dataset.sort;
      this.begin();
    });
    this.list.scroller.addEventListener('keydown', (event) => this.key(event));
    document.addEventListener('pointerdown', (event) => {
      const isOurs = this.panel.contains(event.target) || this.button.contains(event.target);
      if (!this.panel.hidden && !isOurs) this.toggle(false);
    });
  }

  toggle(isOpen = this.panel.hidden) {
    this.panel.hidden = !isOpen;
    this.button.setAttribute('aria-expanded', String(isOpen));
    if (!isOpen) return;
    this.begin();
    if (!matchMedia('(pointer: coarse)').matches) this.filter.focus();
  }

  /** Closes the panel. Returns whether it was open. */
  close() {
    if (this.panel.hidden) return false;
    const hadFocus = this.panel.contains(document.activeElement) || document.activeElement === document.body;
    this.toggle(false);
    if (hadFocus) this.button.focus();
    return true;
  }

  /** @param status model.Status; the last one if it is missing */
  update(count, chosen, { clock, range, by }, status = this.status) {
    const isOther = clock !== this.clock || range !== this.range;
    Object.assign(this, { count, chosen, clock, range, status, isChosen: new Set(chosen) });
    this.showLabel();
    this.showBy(by);
    byId('threads-by').hidden = count < 2;
    for (const each of byId('by').querySelectorAll('.several')) each.hidden = !(status?.processes > 1);
    if (this.panel.hidden) return;
    this.list.draw();
    this.showHead();
    if (isOther) this.begin();
    else this.refresh();
  }

  // --- label -----------------------------------------------------------------------------------

  showLabel() {
    setText(this.label, this.describe());
    this.button.classList.toggle('is-active', this.chosen.length > 0);
    const unknown = this.chosen.filter((id) => !this.names.has(id));
    if (unknown.length && this.chosen.length <= MOST_NAMED) this.askNames(unknown);
  }

  describe() {
    const { chosen, count } = this;
    if (!chosen.length) return count > 1 ? `All ${formatPlural(count, 'thread')}` : count ? '1 thread' : 'All threads';
    if (chosen.length > 1) return `${formatCount(chosen.length)} of ${formatPlural(count, 'thread')}`;
    return this.names.get(chosen[0]) || '1 thread';
  }

  async askNames(ids) {
    for (const id of ids) this.names.set(id, ''); // once at a time
    try {
      this.learn((await fetchJson(`threads?limit=0&ids=${ids.join(',')}`)).known);
    } catch {
      // The label stays as it is; the next status asks again.
    }
    const unknown = ids.filter((id) => !this.names.get(id));
    for (const id of unknown) this.names.delete(id);
    if (unknown.length < ids.length) this.showLabel();
  }

  learn(threads) {
    learnThreads(threads); // for the URL
    for (const { thread_id: id, name, tid } of threads) this.names.set(id, `${name} (${tid})`);
  }

  // --- requests --------------------------------------------------------------------------------

  forget() {
    this.first = 0; // number of the first of the rows
    this.rows = []; // those loaded, from `first` on
    this.answer = { row_count: 0, matching_ids: '', most_ns: {}, error: null };
    this.asked = (this.asked ?? 0) + 1;
  }

  /** Asks for the list anew, from its top: another order, filter or grouping. */
  begin() {
    this.wanted = this.filter.value; // while more is typed, the rows that are shown have new numbers
    this.list.scroller.scrollTop = 0;
    this.ask(0, { isOther: true });
  }

  scrolled() {
    clearTimeout(this.scrolling);
    this.scrolling = setTimeout(() => {
      const [first, end] = this.list.inSight(5);
      if (first >= this.first && end <= this.first + this.rows.length) return;
      this.ask(Math.max(0, Math.floor((first + end - WINDOW) / 2)), { isOther: true });
    }, SCROLL_GAP_MS);
  }

  /** Asks for the numbers of the rows that are shown. They keep their places while one looks at them. */
  refresh() {
    if (this.isMoving) return; // other rows are on their way
    const isAll = this.answer.row_count <= WINDOW;
    if (isAll || this.groups.checked) this.ask(this.first);
    else this.ask(this.first, { ids: this.rows.map((row) => row.thread_id) });
  }

  async ask(offset, { isOther = false, ids = null } = {}) {
    const mine = ++this.asked;
    this.isMoving = isOther;
    const query = new URLSearchParams({ offset, limit: ids ? 0 : WINDOW });
    query.set('sort', this.sort === 'weight' ? this.clock : this.sort);
    if (this.range) query.set('range', this.range);
    if (this.wanted) query.set('filter', this.wanted);
    if (this.groups.checked) query.set('group', 1);
    if (ids) query.set('ids', ids.join(','));
    let answer;
    try {
      answer = await fetchJson(`threads?${query}`);
    } catch (error) {
      if (mine === this.asked) this.isMoving = false;
      if (error instanceof HttpError) this.showNote(error.message);
      return; // else the connection reports it; the next status asks again
    }
    if (mine !== this.asked) return;
    this.isMoving = false;
    const fresh = ids ? answer.known : answer.rows;
    this.answer = answer;
    this.rows = isOther ? fresh : this.merge(fresh);
    this.first = offset;
    this.learn(fresh.filter((row) => row.tid !== undefined));
    this.list.update(answer.row_count);
    this.showHead();
  }

  /** Returns the rows with new numbers at their old places, and further ones at the end. */
  merge(fresh) {
    const left = new Map(fresh.map((row) => [keyOf(row), row]));
    const kept = this.rows.map((row) => {
      const found = left.get(keyOf(row)) ?? row;
      left.delete(keyOf(row));
      return found;
    });
    return [...kept, ...left.values()].slice(0, Math.max(kept.length, this.answer.row_count));
  }

  // --- list ------------------------------------------------------------------------------------

  showHead() {
    const { answer } = this;
    setText(byId('threads-weight-label'), weightTitle(this.clock));
    const hasGil = this.status?.has_gil ?? false;
    this.panel.classList.toggle('has-gil', hasGil);
    for (const title of this.panel.querySelectorAll('#threads-titles .gil')) title.hidden = !hasGil;
    byId('threads-gil').hidden = !hasGil || !answer.gil;
    if (hasGil && answer.gil) setText(byId('threads-gil'), describeGil(answer.gil, countedNs(this.status, this.range)));
    byId('threads-all').setAttribute('aria-pressed', String(this.chosen.length === 0));
    this.list.scroller.setAttribute('aria-rowcount', String(answer.row_count + 1));
    for (const title of this.panel.querySelectorAll('[role="columnheader"]')) {
      const isIt = title.querySelector('button')?.dataset.sort === this.sort;
      if (isIt) title.setAttribute('aria-sort', DESCENDING.includes(this.sort) ? 'descending' : 'ascending');
      else title.removeAttribute('aria-sort');
    }
    const { matching, error } = answer;
    const hasFilter = Boolean(this.wanted) && matching !== undefined;
    byId('threads-matching').hidden = !hasFilter || !matching;
    setText(byId('threads-matching'), matching === 1 ? 'Show this one' : `Show these ${formatCount(matching ?? 0)}`);
    this.filter.setAttribute('aria-invalid', String(Boolean(error)));
    this.showNote(error ?? (hasFilter && !matching ? 'No thread has such a name.' : ''));
  }

  showNote(text) {
    setText(byId('threads-note'), text);
    byId('threads-note').hidden = !text;
  }

  row(at) {
    const row = this.rows[at - this.first];
    const cell = (name, ...content) => h('span', { class: name, role: 'cell' }, content);
    if (!row) return h('div', { class: 'thread-row', role: 'row', 'data-key': `#${at}`, 'aria-rowindex': at + 2 }, cell('dim', '…'));
    const isGroup = row.thread_ids !== undefined;
    const ids = isGroup ? parseThreads(row.thread_ids) : [row.thread_id];
    const isChosen = ids.length > 0 && ids.every((id) => this.isChosen.has(id));
    const name = row.name || '(no name)';
    const weight = row[WEIGHTS[this.clock]];
    const most = Math.max(1, this.answer.most_ns?.[WEIGHTS[this.clock]] ?? weight);
    const duration = this.status ? countedNs(this.status, this.range) : 0;
    const hasGil = this.status?.has_gil ?? false;
    const box = h('input', {
      type: 'checkbox',
      'aria-label': `Add ${name}${isGroup ? '' : ` ${row.tid}`}`,
      onclick: () => this.flip(ids, isChosen),
    });
    box.checked = isChosen;
    const wait = describeWait(row, this.status);
    return h(
      'div',
      {
        class: `thread-row${isChosen ? ' is-chosen' : ''}${row.exited ? ' has-exited' : ''}`,
        role: 'row',
        'data-key': keyOf(row),
        'aria-rowindex': at + 2,
      },
      cell('thread-name', box, h('button', { type: 'button', class: 'link', title: titleOf(row), onclick: () => this.onChoose(ids) }, name)),
      cell('thread-tid number dim', isGroup ? `× ${formatCount(row.count)}` : String(row.tid)),
      cell('thread-weight weight', h('span', { class: 'number' }, formatWeight(weight)), h('span', { class: 'track' }, bar('fill', weight / most))),
      hasGil ? cell('thread-gil number', formatShare(row.gil_held_ns, duration)) : null,
      hasGil ? cell('thread-gil number', formatShare(row.gil_awaited_ns, duration)) : null,
      h('span', { class: `thread-waits${wait.isQuiet ? ' dim' : ''}`, role: 'cell', title: wait.title || null }, wait.text),
    );
  }

  flip(ids, isChosen) {
    const chosen = new Set(this.chosen);
    for (const id of ids) {
      if (isChosen) chosen.delete(id);
      else chosen.add(id);
    }
    this.onChoose([...chosen].sort((a, b) => a - b));
  }

  /** Moves the focus from row to row. */
  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const from = Number(document.activeElement.closest('[aria-rowindex]')?.getAttribute('aria-rowindex') ?? 1) - 2;
    const to = Math.max(0, Math.min(this.answer.row_count - 1, from + by));
    this.list.reveal(to);
    this.list.rows.querySelector(`[aria-rowindex="${to + 2}"] .link`)?.focus();
  }
}

const keyOf = (row) => (row.thread_ids === undefined ? `thread ${row.thread_id}` : `group ${row.name}`);

function titleOf(row) {
  if (row.thread_ids !== undefined) return `${formatPlural(row.count, 'thread')} whose names differ only in numbers`;
  return row.comm ? `${row.name} (the kernel's name: ${row.comm})` : `Show only ${row.name}`;
}

/** Returns how long the time that is counted is: the chosen range, or the recording without its pauses. */
function countedNs({ duration_ns: allNs, paused_ns: pausedNs }, range) {
  const recorded = allNs - pausedNs;
  const [start, end] = range.split('-').map((ms) => 1e6 * Number(ms));
  if (range.startsWith('last')) return Math.min(1e6 * Number(range.slice(4)), recorded);
  return range ? Math.max(0, Math.min(end, allNs) - start) : recorded;
}
