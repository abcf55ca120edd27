// Where threads wait for locks: the panel that the button above the timeline opens. It asks only while it is open.

import { fetchJson, isReport } from '../server/connection.js';
import { bar, byId, h } from '../page/dom.js';
import { reconcile } from '../page/reconcile.js';
import { NOT_SAVED, say } from '../page/toast.js';
import { hasCode } from '../model/explain.js';
import { formatCount, formatNs, formatPlural, formatShare } from '../model/format.js';
import { weightQuery } from '../model/state.js';

const GAP_MS = 2000; // between two answers while recording
const HOLDERS = 4; // shown
const LEAST_SHARE = 0.005; // of one

export class Locks {
  /** @param on {toggled(), find(name), code(function)} */
  constructor(getState, on) {
    Object.assign(this, { getState, on });
    this.panel = byId('locks');
    this.button = byId('locks-button');
    this.content = byId('locks-content');
    this.timer = 0;
    this.nextAt = -Infinity;
    this.underWay = new AbortController();
    this.button.hidden = isReport;
    this.button.addEventListener('click', () => this.toggle());
    byId('locks-close').addEventListener('click', () => this.toggle(false));
  }

  get isOpen() {
    return !this.panel.hidden;
  }

  toggle(isOpen = !this.isOpen) {
    if (isReport) return say(NOT_SAVED);
    this.panel.hidden = !isOpen;
    this.button.setAttribute('aria-expanded', String(isOpen));
    this.on.toggled();
    if (isOpen) this.news({ isOther: true });
    else clearTimeout(this.timer);
  }

  /** Asks again: the profile has grown or, if `isOther`, what is counted has changed. */
  news({ isOther = false } = {}) {
    if (!this.isOpen || document.hidden || (this.timer && !isOther)) return;
    clearTimeout(this.timer);
    const wait = isOther ? 0 : Math.max(0, this.nextAt - performance.now());
    this.timer = setTimeout(() => this.ask(), wait);
  }

  async ask() {
    this.underWay.abort();
    this.underWay = new AbortController();
    const { signal } = this.underWay;
    const began = performance.now();
    try {
      const answer = await fetchJson(`locks?${weightQuery(this.getState())}`, { signal });
      if (!signal.aborted) this.show(answer);
    } catch {
      // The next news ask again.
    }
    if (signal.aborted) return;
    this.timer = 0;
    // Requests take at most a third of the time.
    this.nextAt = performance.now() + Math.max(GAP_MS, 2 * (performance.now() - began));
  }

  show({ total_ns: total, count, places }) {
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && this.content.contains(selection.anchorNode)) return;
    if (!places.length) return reconcile(this.content, [h('p', { class: 'note' }, 'No thread waited for a lock in this time.')]);
    const hidden = count - places.length;
    reconcile(this.content, [
      h('p', { class: 'note' }, `${formatNs(total)} of all threads together, by the line that takes the lock`),
      h('ul', { class: 'lock-places' }, places.map((place) => this.place(place, total))),
      hidden > 0 && h('p', { class: 'note' }, `and ${formatPlural(hidden, 'place')} with less`),
      places.some(({ held }) => !held) && h('p', { class: 'note' }, 'Who held a lock meanwhile is known of Python’s GIL, mutexes of the C library and Java’s monitors; of the others, see what the other threads did in the same time.'),
    ].filter(Boolean));
  }

  place(place, total) {
    const { kind, function: f, line, file, text, wait_ns: ns, threads, held } = place;
    const name = f?.name ?? '';
    const where = [file || f?.module, line || ''].filter(Boolean).join(':');
    const button = (label, act) => h('button', { class: 'button small', type: 'button', onclick: act }, label);
    return h(
      'li',
      { 'data-key': `${kind} ${f?.id ?? ''} ${line}` },
      h('p', { class: 'lock-weight' }, h('b', { class: 'number' }, formatShare(ns, total)), h('span', { class: 'number dim' }, `${formatNs(ns)} · ${formatCount(threads)} ${threads === 1 ? 'thread' : 'threads'}`)),
      h('span', { class: 'track' }, bar('fill', total ? ns / total : 0)),
      text && h('code', { class: 'lock-text', title: where }, text),
      h('p', {}, name ? `${kind}, taken in ` : kind, name && h('b', {}, name)),
      where && h('p', { class: 'lock-where dim', title: where }, where),
      held && holders(held.holders, ns),
      f && h('p', { class: 'lock-buttons' }, button('Show in graph', () => this.on.find(name)), hasCode(f) && button('Source', () => this.on.code(f))),
    );
  }
}

/** Returns the holders by function, the longest first: the threads of a pool do the same. */
function byFunction(holders) {
  const found = new Map();
  for (const { thread, tid, function: name, place, ns } of holders) {
    const key = `${name} ${place}`;
    if (!found.has(key)) found.set(key, { name, place, ns: 0, threads: new Set() });
    const one = found.get(key);
    one.ns += ns;
    one.threads.add(thread ? `${thread} (${tid})` : 'a thread that ended');
  }
  return [...found.values()].sort((a, b) => b.ns - a.ns);
}

/** @param total nanoseconds of the waits; the holders' sum is less where nobody held it or that is not known. */
function holders(found, total) {
  const rows = byFunction(found).filter(({ ns }) => ns >= LEAST_SHARE * total).slice(0, HOLDERS).map(({ name, place, ns, threads }) => {
    const who = threads.size === 1 ? [...threads][0] : formatPlural(threads.size, 'thread');
    return h('li', { title: place }, h('span', { class: 'number' }, formatShare(ns, total)), ' ', name ? h('b', {}, name) : 'no function of the program', h('span', { class: 'dim' }, ` in ${who}`));
  });
  if (!rows.length) return h('p', { class: 'dim' }, 'Not known who held it.');
  const rest = total - found.reduce((sum, { ns }) => sum + ns, 0);
  if (rest >= LEAST_SHARE * total) rows.push(h('li', { class: 'dim' }, h('span', { class: 'number' }, formatShare(rest, total)), ' nobody, or not known'));
  return h('div', { class: 'lock-holders' }, h('p', { class: 'dim' }, 'Held meanwhile by'), h('ul', {}, rows));
}
