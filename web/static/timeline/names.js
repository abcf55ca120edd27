// The names beside the lanes: a click shows only that thread.

import { fitLabel } from '../model/layout.js';
import { h, setText } from '../page/dom.js';
import { isReport } from '../server/connection.js';

const context = document.createElement('canvas').getContext('2d');

export class LaneNames {
  /** @param onChoose called with thread ids */
  constructor(element, onChoose) {
    Object.assign(this, { element, onChoose });
    this.items = new Map(); // key of a row → its element
    this.ids = new Map(); // the same → its threads, which may become more
  }

  /** @param rows of the timeline: {kind, id, label, top, height, lane}; @param chosen thread ids */
  update(rows, chosen) {
    const kept = new Set();
    let fit = null;
    for (const row of rows) {
      const key = row.kind === 'thread' ? row.id : row.kind;
      kept.add(key);
      this.ids.set(key, row.ids);
      let item = this.items.get(key);
      if (!item) {
        item = this.make(row);
        this.items.set(key, item);
        this.element.append(item);
      }
      item.style.top = `${row.top}px`;
      item.style.height = `${row.height}px`;
      item.style.lineHeight = `${row.height}px`;
      fit ??= this.fitting(item);
      setText(item.firstChild, fit(row.label));
      item.title = row.title ?? '';
      if (row.kind === 'thread') {
        const what = row.lane.thread_ids.length ? '' : ` (${row.lane.tid})`;
        const only = isReport ? '' : `: show only ${what ? 'this thread' : 'this'}`;
        item.title = `${row.label}${what}${row.lane.exited ? ', ended' : ''}${only}`;
        if (item.tagName === 'BUTTON') item.setAttribute('aria-label', row.label);
        item.classList.toggle('has-exited', row.lane.exited === true);
      }
    }
    for (const [key, item] of this.items) {
      if (kept.has(key)) continue;
      item.remove();
      this.items.delete(key);
    }
    this.choose(chosen);
  }

  /** Returns a function that shortens a name to the room there is, in its middle: pools number their threads. */
  fitting(item) {
    const { font, maxWidth, paddingLeft } = getComputedStyle(item);
    const roomPx = parseFloat(maxWidth) - 2 * parseFloat(paddingLeft);
    context.font = font;
    return (name) => (roomPx > 0 ? fitLabel(name, roomPx, (text) => context.measureText(text).width) : name);
  }

  make(row) {
    const text = h('span', {});
    if (row.kind !== 'thread' || isReport) return h('div', { class: `timeline-name is-${row.kind}` }, text);
    const name = h('button', { class: 'timeline-name', type: 'button', 'aria-pressed': 'false' }, text);
    name.addEventListener('click', () => this.onChoose(this.ids.get(row.id)));
    return name;
  }

  /** Marks the chosen threads. */
  choose(chosen) {
    this.element.classList.toggle('has-chosen', chosen.length > 0);
    for (const [key, item] of this.items) {
      const ids = this.ids.get(key) ?? [];
      if (item.tagName === 'BUTTON') item.setAttribute('aria-pressed', String(ids.length > 0 && ids.every((id) => chosen.includes(id))));
    }
  }
}
