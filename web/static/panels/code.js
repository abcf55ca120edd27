// The panel that shows one function's source lines or instructions with their weights. It requests
// data only while it is open, and has DOM elements only for visible rows.

import { HttpError, fetchJson } from '../server/connection.js';
import { rem } from '../page/appearance.js';
import { announce, byId, choice, h, setText, setTitle } from '../page/dom.js';
import { hasAssembly } from '../model/explain.js';
import { formatShare } from '../model/format.js';
import { formatWeight } from '../model/weight.js';
import { codeRows, hottestRow, nextHot, sourceRows } from '../model/listing.js';
import { codeQuery } from '../model/state.js';
import { VirtualList, partsOf } from './virtual_list.js';

const GAP_MS = 2000; // between two answers while recording
const ROW_PX = 20; // as in css/code.css
const TABS = { source: ['lines', sourceRows], assembly: ['instructions', codeRows] };

export class Code {
  /** @param getState the page's state: clock and threads */
  constructor(getState) {
    this.getState = getState;
    this.panel = byId('code');
    this.list = byId('code-list');
    this.virtual = new VirtualList(partsOf('code'), {
      rowHeight: () => ROW_PX * rem(),
      make: (at) => this.element(this.rows[at], at),
    });
    this.func = null; // {id, name, full_name}
    this.tab = 'source';
    this.rows = [];
    this.query = ''; // the request that the rows answer
    this.notes = []; // of that answer
    this.current = -1; // the row from which N and the arrow keys start
    this.askedAt = -Infinity;
    this.timer = 0;
    this.underWay = new AbortController();
    this.showTab = choice(byId('code-tabs'), (tab) => this.open(this.func, tab));
    byId('code-close').addEventListener('click', () => this.close());
    byId('code-next').addEventListener('click', () => this.step(1));
    byId('code-previous').addEventListener('click', () => this.step(-1));
    this.list.addEventListener('keydown', (event) => this.key(event));
  }

  get isOpen() {
    return !this.panel.hidden;
  }

  /** Shows a function; `tab` is "source" or "assembly", by default the one shown last. */
  open(func, tab = this.tab) {
    if (!func) return;
    byId('code-tabs').hidden = !hasAssembly(func);
    if (!hasAssembly(func)) tab = 'source';
    const isOther = !this.isOpen || func.id !== this.func?.id || tab !== this.tab;
    if (!this.isOpen) this.returnTo = document.activeElement;
    this.panel.hidden = false;
    this.func = func;
    this.tab = tab;
    this.showTab(tab);
    const name = func.full_name || func.name;
    setText(byId('code-name'), name);
    setTitle(byId('code-name'), name);
    if (!isOther) return;
    this.isNew = true;
    this.show([], ['Loading …'], '');
    this.ask();
  }

  close() {
    if (!this.isOpen) return false;
    this.panel.hidden = true;
    this.underWay.abort();
    clearTimeout(this.timer);
    this.virtual.update(0);
    if (this.panel.contains(document.activeElement) || document.activeElement === document.body) {
      this.returnTo?.focus?.();
    }
    return true;
  }

  /** Requests new rows: the profile has grown or, if `isOther`, clock or threads have changed. */
  news({ isOther = false } = {}) {
    if (!this.isOpen) return;
    clearTimeout(this.timer);
    const wait = isOther ? 0 : Math.max(0, this.askedAt + GAP_MS - performance.now());
    this.timer = setTimeout(() => this.ask(), wait);
  }

  async ask() {
    this.underWay.abort();
    this.underWay = new AbortController();
    const { signal } = this.underWay;
    const began = performance.now();
    this.askedAt = began;
    const [path, toRows] = TABS[this.tab];
    const query = `${path}?${codeQuery(this.getState(), this.func.id)}`;
    try {
      const answer = await fetchJson(query, { signal });
      if (signal.aborted || !this.isOpen) return;
      // Requests take at most a third of the time.
      this.askedAt = performance.now() + 2 * (performance.now() - began) - GAP_MS;
      this.askedAt = Math.max(this.askedAt, began);
      const place = this.tab === 'source' ? answer.file : answer.module;
      this.query = query;
      this.notes = answer.notes;
      this.show(toRows(answer), answer.notes, place, answer);
    } catch (error) {
      if (signal.aborted || !this.isOpen) return;
      const why = error instanceof HttpError ? error.message : 'The server does not answer';
      if (this.rows.length) {
        this.showNotes(query === this.query ? this.notes : [why, 'The rows shown are older']);
        return;
      }
      this.isNew = false;
      this.show([], [why], '');
    }
  }

  showNotes(notes) {
    setText(byId('code-notes'), notes.join('. '));
    byId('code-notes').hidden = notes.length === 0;
  }

  show(rows, notes, place, answer = null) {
    this.rows = rows;
    setText(byId('code-place'), place);
    setTitle(byId('code-place'), place);
    this.showNotes(notes);
    const own = answer ? `self ${formatWeight(answer.self_ns)}` : '';
    const all = answer ? `total ${formatWeight(answer.total_ns)}` : '';
    const share = answer ? `${formatShare(answer.total_ns, answer.whole_ns)} of all` : '';
    setText(byId('code-weight'), [own, all, share].filter(Boolean).join(' · '));
    this.list.classList.toggle('is-assembly', this.tab === 'assembly');
    this.list.setAttribute('aria-rowcount', String(rows.length + 1));
    const isWaiting = this.isNew && !answer;
    this.list.hidden = rows.length === 0 && !isWaiting; // hiding it would take its focus
    byId('code-steps').hidden = !rows.some(({ heat }) => heat > 0);
    this.virtual.update(rows.length);
    if (this.isNew && answer) {
      this.isNew = false;
      this.current = hottestRow(rows);
      this.list.scrollLeft = 0;
      this.list.scrollTop = 0;
      this.virtual.reveal(Math.max(0, this.current));
    }
  }

  element(row, at) {
    const cell = (name, text, title = null) =>
      h('span', { class: `code-${name}`, role: 'cell', title }, text);
    const element = h('div', {
      class: `code-row is-${row.kind}${at === this.current ? ' is-current' : ''}`,
      role: 'row',
      'data-key': `${this.tab} ${row.key}`,
      'aria-rowindex': at + 2,
    });
    if (row.kind === 'gap') {
      element.append(cell('gap', '⋯'));
      return element;
    }
    element.style.setProperty('--heat', row.heat.toFixed(3));
    element.append(
      cell('self number', row.self, row.selfNs ? formatWeight(row.selfNs) : null),
      cell('total number', row.total, row.totalNs ? formatWeight(row.totalNs) : null),
      cell('line number', row.place, row.bytes ?? null),
      cell('text', row.text),
    );
    if (row.note) element.append(cell('note', row.note));
    return element;
  }

  /** Moves to the next hot row; `direction` is 1 or -1. */
  step(direction) {
    const next = nextHot(this.rows, this.current, direction);
    if (next >= 0) this.goTo(next);
  }

  goTo(at) {
    this.current = Math.max(0, Math.min(this.rows.length - 1, at));
    this.virtual.reveal(this.current);
    const row = this.rows[this.current];
    if (row.kind === 'gap') return;
    const what = [row.place, row.text.trim()].filter(Boolean).join(': ');
    announce(`${what}, self ${row.self || '0 %'}, total ${row.total || '0 %'}`);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.list.clientHeight / this.virtual.rowHeight()) - 2);
    const steps = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key in steps && this.rows.length) this.goTo(this.current + steps[event.key]);
    else if (event.key === 'n' || event.key === 'N') this.step(event.shiftKey ? -1 : 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
