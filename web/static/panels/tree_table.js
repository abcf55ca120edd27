// The call tree as a table: the graph's twin for the keyboard and for screen readers (an ARIA tree grid). The
// server sends the children of opened nodes in pages; only rows in sight have DOM elements.

import { fetchJson } from '../server/connection.js';
import { rem } from '../page/appearance.js';
import { bar, byId, h, setText, swatch } from '../page/dom.js';
import { copyText } from '../page/clipboard.js';
import { describeRange, formatDifference, formatPart, sidesOf, signOf, sureness } from '../model/change.js';
import { explainKind } from '../model/explain.js';
import { formatPlural, formatShare } from '../model/format.js';
import { formatWeight } from '../model/weight.js';
import { learnFunctions } from '../model/spelling.js';
import { pathText, rowsText } from '../model/stack_text.js';
import { treeQuery } from '../model/state.js';
import { TreeRows } from '../model/tree_rows.js';
import { VirtualList } from './virtual_list.js';

const GAP_MS = 1000; // between two answers while recording
const MAX_COPIED = 2000;
const TRUNK = 0.8; // of the whole: what has so much is open at first, as nobody wants to open it row by row

export class TreeTable {
  /**
   * @param getState the page's state
   * @param on {menu(place, row, copy), zoom(path), failed(message), isHeld()}
   */
  constructor(getState, on) {
    Object.assign(this, { getState, on });
    this.section = byId('tree');
    this.grid = h('div', {
      id: 'tree-grid',
      class: 'tree-grid',
      role: 'treegrid',
      tabindex: '0',
      'aria-label': 'Call tree. Right and left open and close a row, * opens the heaviest path, Enter shows it in the graph.',
    });
    this.spacer = h('div', { class: 'tree-spacer', role: 'presentation' });
    this.body = h('div', { class: 'tree-rows', role: 'rowgroup' });
    this.spacer.append(this.body);
    this.note = h('p', { class: 'tree-note dim', role: 'status' });
    this.grid.append(this.titles(), this.spacer);
    this.section.append(this.tools(), this.grid);
    this.rows = new TreeRows();
    this.isNew = true; // nobody has opened or closed a row
    this.active = ''; // key of the row that the keyboard is on
    this.query = '';
    this.revision = -1;
    this.newest = 0;
    this.askedAt = -Infinity;
    this.timer = 0;
    this.underWay = null;
    this.palette = null;
    this.grid.addEventListener('keydown', (event) => this.key(event));
    this.body.addEventListener('click', (event) => this.click(event));
    this.body.addEventListener('dblclick', (event) => this.at(event, (row) => this.on.zoom(row.path)));
    this.body.addEventListener('contextmenu', (event) => this.at(event, (row) => this.menu(row, event)));
    this.list = new VirtualList(
      { scroller: this.grid, spacer: this.spacer, rows: this.body },
      { rowHeight: () => Math.round(26 * rem()), make: (at) => this.makeRow(at), onScroll: () => this.draw() },
    );
  }

  tools() {
    const button = (text, title, onclick) => h('button', { type: 'button', class: 'button small', title, onclick }, text);
    return h(
      'div',
      { class: 'tree-tools' },
      button('Heaviest path', 'Open the heaviest path below the row (*)', () => this.openHeaviest()),
      button('Close all', 'Close all rows', () => this.closeAll()),
      button('Copy as text', 'Copy the rows as text (Y)', () => this.copy()),
      this.note,
    );
  }

  titles() {
    const title = (name, text) => h('span', { class: `tree-${name}`, role: 'columnheader' }, text);
    this.heads = [title('total', ''), title('self', ''), title('change', 'Change')];
    return h('div', { class: 'tree-row tree-titles', role: 'row' }, this.heads, title('name', 'Function'), title('module', 'Module'));
  }

  /** Names the columns of weights: in a comparison, both ranges. */
  showTitles() {
    const { range, compare } = this.getState();
    this.grid.classList.toggle('is-compared', compare !== '');
    setText(this.heads[0], compare ? describeRange(range) : 'Total');
    setText(this.heads[1], compare ? describeRange(compare) : 'Self');
    this.heads[2].hidden = compare === '';
  }

  get isOpen() {
    return !this.section.hidden;
  }

  setPalette(palette) {
    this.palette = palette;
    this.draw();
  }

  /** Shows or hides the table, and asks for its rows if they are of another state. */
  update() {
    const state = this.getState();
    const wasOpen = this.isOpen;
    this.section.hidden = state.tab !== 'tree';
    if (!this.isOpen) return;
    this.showTitles();
    const query = treeQuery(state, 0);
    if (query !== this.query) {
      const isOtherShape = query.replace(/(clock|range|threads|revision)=[^&]*&?/g, '') !== this.query.replace(/(clock|range|threads|revision)=[^&]*&?/g, '');
      this.query = query;
      if (isOtherShape) this.startAnew();
      else this.rows.forget();
      this.openZoom(state.zoom);
      this.draw();
      this.ask({ isStale: true });
    } else if (!wasOpen) {
      this.openZoom(state.zoom);
      this.ask({ isStale: this.newest > this.revision && !this.on.isHeld() });
    }
  }

  /** Closes all rows; those that have most of the time open by themselves. */
  startAnew() {
    this.rows.clear();
    this.isNew = true;
  }

  /** Opens the rows down to the box that the graph is zoomed to. */
  openZoom(zoom) {
    if (!zoom.length || !zoom.every(Number.isInteger)) return;
    this.rows.openAlong(zoom);
    this.rows.open(zoom);
    this.active = zoom.join('.');
    this.isToReveal = true;
  }

  /** Notes a newer revision. Rows do not move while the pointer is over them. */
  news(revision) {
    this.newest = revision;
    if (!this.isOpen || document.hidden || revision <= this.revision || this.on.isHeld()) return;
    clearTimeout(this.timer);
    const wait = Math.max(0, this.askedAt + GAP_MS - performance.now());
    this.timer = setTimeout(() => {
      if (this.body.matches(':hover')) this.news(this.newest);
      else if (!this.underWay) this.ask({ isStale: true });
    }, Math.max(wait, 50));
  }

  /**
   * Requests the rows that are missing in sight.
   *
   * @param isStale true also requests those that are there
   * @param heaviest a path: open the heaviest path below it
   */
  async ask({ isStale = false, heaviest = null } = {}) {
    const nodes = this.rows.wanted(...this.list.inSight(12), isStale).slice(0, 400);
    const isTrunk = this.isNew && heaviest === null;
    if (!nodes.length && heaviest === null) return;
    this.underWay?.abort();
    const { signal } = (this.underWay = new AbortController());
    const began = performance.now();
    const body = { nodes, ...(heaviest === null && !isTrunk ? {} : { heaviest: { path: heaviest ?? '' } }) };
    try {
      const answer = await fetchJson(`tree?${treeQuery(this.getState(), isStale ? this.newest : Math.max(this.revision, 0))}`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
        signal,
      });
      if (signal.aborted) return;
      this.underWay = null;
      // Requests take at most a third of the time.
      this.askedAt = performance.now() + 2 * (performance.now() - began);
      this.take(answer, heaviest, isTrunk);
    } catch (error) {
      if (signal.aborted) return;
      this.underWay = null;
      this.on.failed(error.message ?? 'flametap does not answer.');
    }
  }

  take(answer, heaviest, isTrunk) {
    this.revision = answer.revision;
    const before = this.row();
    for (const { rows } of answer.nodes) learnFunctions(rows);
    this.rows.take(answer, { opensFrom: heaviest !== null ? 0 : isTrunk ? TRUNK : Infinity });
    this.isNew &&= !answer.nodes.some(({ count }) => count);
    const list = this.rows.list();
    if (heaviest !== null && answer.nodes.length) {
      const deepest = answer.nodes.findLast(({ count }) => count) ?? answer.nodes.at(-1);
      const id = deepest.rows.id[0];
      this.active = [...deepest.path, ...(id === undefined ? [] : [id])].join('.');
      this.isToReveal = true;
    }
    // A row that had not been sent has its own key now.
    if (this.rows.indexOf(this.active) < 0) this.active = (this.rows.likeRow(before) ?? list[0])?.key ?? '';
    setText(this.note, list.length ? formatPlural(list.length, 'row') : 'No time yet');
    this.draw();
    if (this.isToReveal && list.some(({ key }) => key === this.active)) {
      this.isToReveal = false;
      this.reveal();
    }
    this.ask(); // pages that came into sight
  }

  // --- drawing ---------------------------------------------------------------------------------

  draw() {
    if (!this.isOpen || !this.palette) return;
    const list = this.rows.list();
    this.grid.setAttribute('aria-rowcount', String(list.length + 1));
    this.list.update(list.length);
    const [first, end] = this.list.inSight();
    const isShown = this.body.querySelector('.is-current') !== null;
    this.grid.setAttribute('aria-activedescendant', isShown ? this.idOf(this.active) : '');
    if (!this.underWay && list.slice(first, end).some(({ name }) => name === undefined)) this.ask();
  }

  idOf(key) {
    return `tree-row-${key.replaceAll(/[./]/g, '-')}`;
  }

  makeRow(at) {
    const row = this.rows.list()[at];
    const cell = (name, ...children) => h('span', { class: `tree-${name}`, role: 'gridcell' }, ...children);
    const isKnown = row.name !== undefined;
    const kind = isKnown ? explainKind(row) : null;
    const name = !isKnown ? '…' : row.chain ? `${row.name} … ${row.chain}` : row.name;
    const mark = swatch(isKnown ? this.palette.swatch(row) : '');
    const element = h(
      'div',
      {
        class: row.key === this.active ? 'tree-row is-current' : 'tree-row',
        role: 'row',
        id: this.idOf(row.key),
        'data-key': row.key,
        'aria-rowindex': at + 2,
        'aria-level': row.level,
        'aria-posinset': row.place + 1,
        'aria-setsize': row.count,
        'aria-expanded': isKnown && row.hasChildren ? String(row.isOpen) : null,
      },
      isKnown ? this.weights(row, cell) : [cell('total'), cell('self')],
      cell(
        'name',
        h('span', { class: 'tree-twisty', 'aria-hidden': 'true' }, isKnown && row.hasChildren ? (row.isOpen ? '▾' : '▸') : ''),
        h('span', { class: 'tree-label', title: row.full_name || row.name }, name),
        kind && h('span', { class: 'badge' }, kind.badge),
      ),
      cell('module', mark, h('span', { class: 'tree-place' }, row.module ?? '')),
    );
    element.style.setProperty('--level', row.level - 1);
    return element;
  }

  weights(row, cell) {
    const { comparison, totalNs: whole } = this.rows;
    const number = (text, title) => h('span', { class: 'number', title }, text);
    const track = h('span', { class: 'track' }, bar('fill', whole > 0 ? row.totalNs / whole : 0));
    if (!comparison) {
      const self = row.selfNs > 0 ? formatShare(row.selfNs, whole) : '';
      return [
        cell('total', number(formatShare(row.totalNs, whole), formatWeight(row.totalNs)), track),
        cell('self', number(self, formatWeight(row.selfNs))),
      ];
    }
    const { here, there, difference } = sidesOf(comparison, row.hereNs, row.thereNs);
    const change = cell('change', `${signOf(row.change)} ${formatDifference(difference, comparison.is_share)}`.trim());
    change.title = sureness(row.change);
    change.classList.toggle('is-noise', row.change === 0);
    return [
      cell('total', number(formatPart(here, comparison.is_share)), track),
      cell('self', number(formatPart(there, comparison.is_share))),
      change,
    ];
  }

  // --- doing -------------------------------------------------------------------------------------

  row() {
    return this.rows.list()[this.rows.indexOf(this.active)] ?? null;
  }

  at(event, action) {
    const key = event.target.closest('.tree-row')?.dataset.key;
    const row = this.rows.list()[this.rows.indexOf(key ?? '')];
    if (row?.name === undefined) return;
    event.preventDefault();
    this.activate(row.key);
    action(row);
  }

  click(event) {
    this.at(event, (row) => {
      this.grid.focus({ preventScroll: true });
      if (event.target.closest('.tree-twisty') || event.detail === 1) this.toggle(row);
    });
  }

  activate(key) {
    this.active = key;
    this.draw();
  }

  toggle(row, isOpen = !row.isOpen) {
    if (!row.hasChildren || isOpen === row.isOpen) return;
    if (isOpen) this.rows.open(row.path);
    else this.rows.close(row.path);
    this.draw();
    this.ask();
  }

  openHeaviest() {
    const row = this.row();
    this.grid.focus({ preventScroll: true });
    this.ask({ heaviest: row?.path.join('.') ?? '' });
  }

  closeAll() {
    this.rows.clear();
    this.isNew = false;
    this.active = '';
    this.draw();
    this.grid.scrollTop = 0;
    this.ask({ isStale: true });
  }

  copy() {
    const rows = this.rows.list().filter(({ name }) => name !== undefined).slice(0, MAX_COPIED);
    copyText(rowsText(rows, this.rows.totalNs), formatPlural(rows.length, 'row'));
  }

  menu(row, event = null) {
    const area = document.getElementById(this.idOf(row.key))?.getBoundingClientRect();
    const isPointed = event && (event.button === 2 || event.pointerType === 'touch');
    const place = isPointed || !area ? { x: event?.clientX ?? 0, y: event?.clientY ?? 0 } : { x: area.left + 220, y: area.bottom };
    this.on.menu(place, row, () => pathText(row, this.rows.list(), this.rows.totalNs));
  }

  reveal() {
    const at = this.rows.indexOf(this.active);
    if (at < 0) return;
    const height = this.list.rowHeight();
    const top = at * height;
    const room = this.grid.clientHeight - 2 * height; // below the titles
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top > this.grid.scrollTop + room) this.grid.scrollTop = top - room;
    this.draw();
    const row = this.row();
    if (!row || row.name === undefined || document.activeElement === this.grid) return;
    setText(byId('announcement'), `${row.name}, ${formatShare(row.totalNs, this.rows.totalNs)}`);
  }

  key(event) {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    const list = this.rows.list();
    const at = this.rows.indexOf(this.active);
    const row = list[at];
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.list.rowHeight()) - 2);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: list.length - 1 };
    if (event.key in steps) this.goTo(steps[event.key]);
    else if (!row || row.name === undefined) return;
    else if (event.key === 'ArrowRight' && row.hasChildren && !row.isOpen) this.toggle(row, true);
    else if (event.key === 'ArrowRight') row.isOpen && this.goTo(at + 1);
    else if (event.key === 'ArrowLeft' && row.isOpen) this.toggle(row, false);
    else if (event.key === 'ArrowLeft') row.parent.length && this.goTo(this.rows.indexOf(row.parent.join('.')));
    else if (event.key === ' ') this.toggle(row);
    else if (event.key === '*') this.openHeaviest();
    else if (event.key === 'Enter') this.on.zoom(row.path);
    else if (event.key === 'm' || event.key === 'ContextMenu' || (event.key === 'F10' && event.shiftKey)) this.menu(row);
    else if (event.key === 'y') this.copy();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  goTo(at) {
    const list = this.rows.list();
    if (!list.length) return;
    this.active = list[Math.max(0, Math.min(list.length - 1, at))].key;
    this.reveal();
  }
}
