// The table of functions: the data of the graph as text. The server sends the rows in sight.

import { bar, byId, h, setText, swatch } from '../page/dom.js';
import { rem } from '../page/appearance.js';
import { explainKind, hasCode } from '../model/explain.js';
import { formatCount, formatShare } from '../model/format.js';
import { formatWeight } from '../model/weight.js';
import { VirtualList, partsOf } from './virtual_list.js';

const WINDOW = 60; // least rows of one request
const SCROLL_GAP_MS = 60;

export class Functions {
  /** @param on {sort(order), find(name), code(function), more()}: more() asks for a view with other rows */
  constructor(on) {
    this.on = on;
    this.section = byId('functions');
    this.caption = byId('functions-caption');
    this.first = 0; // number of the first of the rows
    this.rows = []; // those loaded, from `first` on
    this.count = 0; // of all functions
    this.whole = 0; // the weight of which all others are a share
    this.isPointedAt = false;
    this.list = new VirtualList(partsOf('functions'), {
      rowHeight: () => Math.round((matchMedia('(max-width: 40rem)').matches ? 56 : 38) * rem()),
      make: (at) => this.row(at),
      onScroll: () => this.scrolled(),
    });
    byId('functions-titles').addEventListener('click', (event) => {
      const button = event.target.closest('button[data-sort]');
      if (button) on.sort(button.dataset.sort);
    });
    this.list.scroller.addEventListener('keydown', (event) => this.key(event));
    this.list.rows.addEventListener('pointerenter', () => (this.isPointedAt = true));
    this.list.rows.addEventListener('pointerleave', () => (this.isPointedAt = false));
  }

  /** Returns the rows to request: {first, rows}. */
  get wanted() {
    const [first, end] = this.list.inSight();
    const rows = Math.max(WINDOW, 2 * (end - first));
    return { first: Math.max(0, Math.floor((first + end - rows) / 2)), rows };
  }

  update(view, { sort, palette }) {
    if (!view.table || view.comparison) return;
    const { rows, first, function_count: count } = view.table;
    const isSame = sort === this.sort && first === this.first && view.search?.pattern === this.pattern;
    const fresh = rows.id.map((id, at) => ({
      id,
      name: rows.name[at],
      module: rows.module[at],
      kind: rows.kind[at],
      origin: rows.origin?.[at] ?? '',
      selfNs: rows.self_ns[at],
      totalNs: rows.total_ns[at],
    }));
    this.rows = isSame && this.isInUse() ? this.merge(fresh) : fresh;
    if (sort !== this.sort || view.search?.pattern !== this.pattern) this.list.scroller.scrollTop = 0;
    this.whole = view.boxes.total_ns[view.zoom.box];
    Object.assign(this, { first, count, sort, palette, pattern: view.search?.pattern });
    setText(this.caption, `${formatCount(count)} functions${view.search?.error === null ? ' that match' : ''}`);
    this.list.scroller.setAttribute('aria-rowcount', String(count + 1));
    for (const title of this.section.querySelectorAll('[role="columnheader"]')) {
      if (title.querySelector('button')?.dataset.sort === sort) title.setAttribute('aria-sort', 'descending');
      else title.removeAttribute('aria-sort');
    }
    this.list.update(count);
  }

  /** Rows keep their places while somebody points at one, or has the focus or selected text in one. */
  isInUse() {
    const { rows } = this.list;
    const selection = document.getSelection();
    const isSelecting = selection && !selection.isCollapsed && rows.contains(selection.anchorNode);
    return this.isPointedAt || rows.contains(document.activeElement) || isSelecting;
  }

  /** Returns the rows with new weights at their old places. */
  merge(fresh) {
    const left = new Map(fresh.map((row) => [row.id, row]));
    const kept = this.rows.map((row) => {
      const found = left.get(row.id) ?? row;
      left.delete(row.id);
      return found;
    });
    return [...kept, ...left.values()].slice(0, Math.max(kept.length, fresh.length));
  }

  scrolled() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const [first, end] = this.list.inSight();
      if (first < this.first || end > this.first + this.rows.length) this.on.more();
    }, SCROLL_GAP_MS);
  }

  row(at) {
    const row = this.rows[at - this.first];
    const attributes = { class: 'function-row', role: 'row', 'aria-rowindex': at + 2 };
    const cell = (name, ...content) => h('span', { class: name, role: 'cell' }, content);
    if (!row) return h('div', { ...attributes, 'data-key': `#${at}` }, cell('dim', '…'));
    const weight = (ns) =>
      cell(
        'weight',
        h('span', { class: 'number' }, formatWeight(ns)),
        h('span', { class: 'number dim' }, formatShare(ns, this.whole)),
        h('span', { class: 'track' }, bar('fill', this.whole > 0 ? ns / this.whole : 0)),
      );
    const kind = explainKind(row);
    return h(
      'div',
      { ...attributes, 'data-key': String(row.id) },
      weight(row.selfNs),
      weight(row.totalNs),
      cell(
        'function',
        h('button', { type: 'button', class: 'link', title: `${row.name}\nFind it in the graph`, onclick: () => this.on.find(row.name) }, row.name),
        kind && h('span', { class: 'badge' }, kind.badge),
        hasCode(row) && h('button', { type: 'button', class: 'code-link', title: `Source of ${row.name}`, onclick: () => this.on.code(row) }, 'source'),
      ),
      cell('module', swatch(this.palette.swatch(row)), h('span', { title: row.module }, row.module)),
    );
  }

  /** Moves the focus from row to row. */
  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey || !this.count) return;
    event.preventDefault();
    const focused = document.activeElement.closest('.function-row');
    const from = Number(focused?.getAttribute('aria-rowindex') ?? this.list.inSight()[0] + 1) - 2;
    const to = Math.max(0, Math.min(this.count - 1, from + by));
    this.list.reveal(to);
    this.list.rows.querySelector(`[aria-rowindex="${to + 2}"] .link`)?.focus();
  }
}
