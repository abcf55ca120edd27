// Who held the GIL while threads waited for it: asked of the server for one box, and shown in its details.

import { fetchJson } from '../server/connection.js';
import { bar, h } from '../page/dom.js';
import { formatShare } from '../model/format.js';
import { weightQuery } from '../model/state.js';

const WAIT_MS = 150; // the pointer stays on the box
const SHOWN = 5;

/** True for the box of threads that wait for the GIL. */
export function isLockWait(f) {
  return f?.kind === 'synthetic' && f.name === '[waiting for the GIL]';
}

function row({ thread, tid, function: name, place, ns }, total) {
  const who = thread ? `${thread} (${tid})` : 'a thread that ended';
  return h(
    'tr',
    {},
    h('th', { scope: 'row', title: place }, name ? `${who} in ${name}` : who),
    h('td', {}, formatShare(ns, total)),
    h('td', { class: 'meter' }, h('span', { class: 'track' }, bar('fill', ns / total))),
  );
}

function rows(answer) {
  if (!answer) return [];
  const { total_ns: total, holders } = answer;
  if (!holders.length) return [h('p', { class: 'dim' }, 'Not known who held it.')];
  return [
    h('p', { class: 'place' }, 'The GIL was held meanwhile by'),
    h('table', {}, h('tbody', {}, holders.slice(0, SHOWN).map((each) => row(each, total)))),
  ];
}

/** The part of the details that lists the holders, of one box at a time. */
export class Holders {
  /** @param onAnswer called when there is something new to show */
  constructor(onAnswer) {
    this.onAnswer = onAnswer;
    this.answer = null;
    this.query = '';
    this.revision = -1;
    this.timer = 0;
  }

  /** Returns the element for a box; asks for a newer one. */
  show(view, box) {
    const query = `${weightQuery(view.asked)}&path=${view.pathOf(box).join('.')}`;
    if (query !== this.query) this.answer = null;
    if (query !== this.query || view.revision !== this.revision) {
      Object.assign(this, { query, revision: view.revision });
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.ask(query), WAIT_MS);
    }
    return h('div', { class: 'holders' }, rows(this.answer));
  }

  async ask(query) {
    let answer;
    try {
      answer = await fetchJson(`gil?${query}`);
    } catch {
      return; // the connection reports it; the next view asks again
    }
    if (query !== this.query) return;
    this.answer = answer;
    this.onAnswer();
  }
}
