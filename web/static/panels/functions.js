// The table of functions: the data of the graph as text.

import { bar, byId, h, setText } from '../page/dom.js';
import { explainKind, hasCode } from '../model/explain.js';
import { formatCount, formatNs, formatShare } from '../model/format.js';

export class Functions {
  /** @param on {sort(order), find(name), code(function)} */
  constructor(on) {
    this.on = on;
    this.section = byId('functions');
    this.body = byId('functions-body');
    this.caption = byId('functions-caption');
    this.rows = new Map(); // function id → row
    this.isPointedAt = false;
    this.section.addEventListener('click', (event) => {
      const button = event.target.closest('button[data-sort]');
      if (button) on.sort(button.dataset.sort);
    });
    this.body.addEventListener('pointerenter', () => (this.isPointedAt = true));
    this.body.addEventListener('pointerleave', () => (this.isPointedAt = false));
  }

  update(view, { sort, palette }) {
    if (!view.table || view.comparison) return;
    const { rows, function_count: count } = view.table;
    const whole = view.boxes.total_ns[view.zoom.box];
    const elements = rows.id.map((id, at) => {
      const row = this.rows.get(id) ?? this.makeRow(rows, at, palette);
      this.rows.set(id, row);
      this.fill(row, rows.self_ns[at], rows.total_ns[at], whole);
      return row.element;
    });
    const isSame = sort === this.sort && palette === this.palette;
    // Rows are not reordered while the pointer is over the table.
    if (!(this.isPointedAt && isSame)) this.body.replaceChildren(...elements);
    if (palette !== this.palette) {
      for (const { swatch, module, origin } of this.rows.values()) {
        swatch.style.background = palette.swatch({ module, origin });
      }
    }
    Object.assign(this, { sort, palette });
    const shown = rows.id.length;
    const some = shown < count ? `The ${formatCount(shown)} heaviest of ${formatCount(count)}` : `${formatCount(count)}`;
    setText(this.caption, `${some} functions${view.search?.error === null ? ' that match' : ''}`);
    for (const header of this.section.querySelectorAll('th')) {
      const key = header.querySelector('button')?.dataset.sort;
      if (key === sort) header.setAttribute('aria-sort', 'descending');
      else header.removeAttribute('aria-sort');
    }
  }

  makeRow(rows, at, palette) {
    const f = { id: rows.id[at], name: rows.name[at], kind: rows.kind[at], module: rows.module[at], origin: rows.origin?.[at] };
    const kind = explainKind(f);
    const swatch = h('span', { class: 'swatch' });
    swatch.style.background = palette.swatch(f);
    const row = {
      swatch,
      module: f.module,
      origin: f.origin,
      self: h('span', { class: 'number' }),
      selfShare: h('span', { class: 'number dim' }),
      selfBar: bar('fill', 0),
      total: h('span', { class: 'number' }),
      totalShare: h('span', { class: 'number dim' }),
      totalBar: bar('fill', 0),
    };
    const find = h(
      'button',
      { type: 'button', class: 'link', title: 'Find in the graph', onclick: () => this.on.find(f.name) },
      f.name,
    );
    const code =
      hasCode(f) &&
      h(
        'button',
        { type: 'button', class: 'code-link', title: `Source of ${f.name}`, onclick: () => this.on.code(f) },
        'source',
      );
    row.element = h(
      'tr',
      {},
      h('td', { class: 'weight' }, row.self, row.selfShare, h('span', { class: 'track' }, row.selfBar)),
      h('td', { class: 'weight' }, row.total, row.totalShare, h('span', { class: 'track' }, row.totalBar)),
      h('td', { class: 'function' }, find, kind && h('span', { class: 'badge' }, kind.badge), code || null),
      h('td', { class: 'module' }, swatch, f.module),
    );
    return row;
  }

  fill(row, selfNs, totalNs, whole) {
    setText(row.self, formatNs(selfNs));
    setText(row.selfShare, formatShare(selfNs, whole));
    row.selfBar.style.width = `${whole > 0 ? (100 * selfNs) / whole : 0}%`;
    setText(row.total, formatNs(totalNs));
    setText(row.totalShare, formatShare(totalNs, whole));
    row.totalBar.style.width = `${whole > 0 ? (100 * totalNs) / whole : 0}%`;
  }
}
