// The table of changes between two ranges: each function's weight here and there, and how sure the difference is.

import { byId, h, setText } from '../page/dom.js';
import { describeRange, formatDifference, formatPart, sidesOf, signOf, sureness } from '../model/change.js';
import { formatCount } from '../model/format.js';

const SURE_TITLE = {
  noise: 'May be chance.',
  likely: 'Chance alone would show at most one in twenty of such changes.',
  certain: 'Chance alone would show at most one in a thousand of such changes.',
};

export class Changes {
  /** @param on {sort(order), menu(place, function)} */
  constructor(on) {
    this.on = on;
    this.section = byId('changes');
    this.caption = h('caption', {});
    this.head = h('tr', {});
    this.body = h('tbody', {});
    this.section.append(h('table', {}, this.caption, h('thead', {}, this.head), this.body));
    this.rows = new Map(); // function id → its row's parts
    this.note = h('p', { class: 'changes-note dim' });
    this.section.append(this.note);
  }

  update(view, { sort, palette }) {
    if (!view.comparison || !view.table) return;
    const { rows, function_count: count } = view.table;
    const { comparison, asked } = view;
    this.titles(asked, sort);
    const most = Math.max(1e-12, ...rows.id.map((_, at) => Math.abs(this.pair(rows, at, sort, comparison).difference)));
    const elements = rows.id.map((id, at) => {
      const parts = this.rows.get(id) ?? this.make(rows, at);
      this.rows.set(id, parts);
      this.fill(parts, rows, at, { sort, comparison, most, palette });
      return parts.element;
    });
    const isSame = elements.length === this.body.children.length && elements.every((each, at) => each === this.body.children[at]);
    if (!isSame) this.body.replaceChildren(...elements);
    setText(this.caption, `${formatCount(rows.id.length)} of ${formatCount(count)} functions, first those whose change is more than chance`);
    const isRough = asked.clock !== 'cpu';
    const sample = 'Each sample counts as one independent draw; two shares are compared as counts of samples.';
    const rough = 'Waits last longer than a sample, so here the judgement is rough: one long wait looks sure.';
    setText(this.note, isRough ? `${sample} ${rough}` : sample);
  }

  pair(rows, at, sort, comparison) {
    return sidesOf(comparison, rows[`${sort}_here`][at], rows[`${sort}_there`][at]);
  }

  titles({ range, compare }, sort) {
    const key = [range, compare, sort].join();
    if (key === this.key) return;
    this.key = key;
    const sortable = (order, text) =>
      h(
        'th',
        { scope: 'col', class: 'number', 'aria-sort': order === sort ? 'descending' : null },
        h('button', { type: 'button', onclick: () => this.on.sort(order) }, text),
      );
    const plain = (text, name = 'number') => h('th', { scope: 'col', class: name }, text);
    const [here, there] = [describeRange(range), describeRange(compare)];
    this.head.replaceChildren(
      plain('Change', 'change'),
      plain('Sure', 'sure'),
      sortable('self', `Self: ${here}`),
      plain(there, 'number there'),
      sortable('total', `Total: ${here}`),
      plain(there, 'number there'),
      plain('Function', 'function'),
      plain('Module', 'module'),
    );
  }

  make(rows, at) {
    const f = { id: rows.id[at], name: rows.name[at], module: rows.module[at], kind: rows.kind[at], origin: rows.origin?.[at] };
    const cell = (name) => h('td', { class: name });
    const menu = (event) => {
      event.preventDefault();
      const area = event.currentTarget.getBoundingClientRect();
      this.on.menu({ x: event.clientX || area.left, y: event.clientY || area.bottom }, f);
    };
    const parts = {
      f,
      text: h('span', { class: 'number' }),
      bar: h('span', { class: 'change-bar' }),
      sure: h('span', { class: 'badge' }),
      numbers: Array.from({ length: 4 }, (_, at) => cell(at % 2 ? 'number dim' : 'number')),
      swatch: h('span', { class: 'swatch' }),
    };
    parts.element = h(
      'tr',
      { oncontextmenu: menu },
      h('td', { class: 'change' }, parts.text, h('span', { class: 'track change-track' }, parts.bar)),
      h('td', { class: 'sure' }, parts.sure),
      ...parts.numbers,
      h('td', { class: 'function' }, h('button', { type: 'button', class: 'link', title: f.name, onclick: menu }, f.name)),
      h('td', { class: 'module' }, parts.swatch, f.module),
    );
    return parts;
  }

  fill(parts, rows, at, { sort, comparison, most, palette }) {
    const isShare = comparison.is_share;
    const grade = rows[`${sort}_change`][at];
    const { difference } = this.pair(rows, at, sort, comparison);
    setText(parts.text, `${signOf(grade)} ${formatDifference(difference, isShare)}`.trim());
    parts.element.className = grade > 0 ? 'is-more' : grade < 0 ? 'is-less' : 'is-noise';
    const half = (50 * Math.abs(difference)) / most;
    parts.bar.style.width = `${half}%`;
    parts.bar.style.marginLeft = `${difference < 0 ? 50 - half : 50}%`;
    setText(parts.sure, sureness(grade));
    parts.sure.title = SURE_TITLE[sureness(grade)];
    ['self', 'total'].forEach((kind, pair) => {
      const { here, there } = this.pair(rows, at, kind, comparison);
      setText(parts.numbers[2 * pair], formatPart(here, isShare));
      setText(parts.numbers[2 * pair + 1], formatPart(there, isShare));
    });
    parts.swatch.style.background = palette.swatch(parts.f);
  }
}
