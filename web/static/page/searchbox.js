// The search box, its result, and the buttons that step through the matches.

import { announce, byId, setText } from './dom.js';
import { isReport } from '../server/connection.js';
import { formatCount, formatShare } from '../model/format.js';

const TYPING_GAP_MS = 150;

export class SearchBox {
  /** @param on {search(text), visit(path), callers(text)}; callers: shows what calls the matches, and what they call */
  constructor(on) {
    this.on = on;
    this.input = byId('search');
    this.box = byId('search-box');
    this.result = null; // "search" of the current view
    this.at = -1; // index of the match visited last, among the heaviest
    this.timer = 0;
    this.input.addEventListener('input', () => {
      this.mark();
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.submit(), TYPING_GAP_MS);
    });
    this.input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter') return;
      if (this.input.value === this.result?.pattern) this.step(event.shiftKey ? -1 : 1);
      else this.submit();
    });
    byId('search-clear').addEventListener('click', () => {
      this.clear();
      this.input.focus();
    });
    byId('search-callers').addEventListener('click', () => on.callers(this.input.value));
    byId('search-next').addEventListener('click', () => this.step(1));
    byId('search-previous').addEventListener('click', () => this.step(-1));
  }

  mark() {
    this.box.classList.toggle('has-text', this.input.value !== '');
  }

  submit() {
    clearTimeout(this.timer);
    this.at = -1;
    this.isNew = this.input.value !== ''; // its result is read out, once
    this.on.search(this.input.value);
  }

  /** Sets the text without a search (from the URL or the table of functions). */
  set(text) {
    clearTimeout(this.timer);
    if (this.input.value !== text) this.input.value = text;
    this.at = -1;
    this.mark();
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  /** Leaves the box, at first by clearing it. Returns whether it had the focus. */
  leave() {
    if (document.activeElement !== this.input) return false;
    if (!this.clear()) this.input.blur();
    return true;
  }

  /** Clears the search. Returns whether there was one. */
  clear() {
    if (!this.input.value) return false;
    this.input.value = '';
    this.mark();
    this.submit();
    return true;
  }

  /** Visits the next of the heaviest matches (1) or the previous one (-1). */
  step(by) {
    const matches = this.result?.top ?? [];
    if (!matches.length) return;
    const from = this.at < 0 && by < 0 ? 0 : this.at;
    this.at = (from + by + matches.length) % matches.length;
    this.show();
    this.on.visit(matches[this.at].path);
  }

  update(view) {
    this.result = view.search;
    this.zoomNs = view.boxes.total_ns[view.zoom.box];
    if (this.at >= (this.result?.top.length ?? 0)) this.at = -1;
    this.show();
    if (this.isNew && this.result?.pattern === this.input.value) {
      announce(this.describe());
      this.isNew = false;
    }
  }

  show() {
    const { result } = this;
    const isBad = Boolean(result?.error);
    this.input.setAttribute('aria-invalid', String(isBad));
    for (const each of [this.box, byId('search-found')]) each.classList.toggle('is-bad', isBad);
    byId('search-step').hidden = !result?.count;
    byId('search-callers').hidden = !result?.count || isReport;
    setText(byId('search-result'), this.describe());
  }

  describe() {
    if (!this.result) return '';
    const { error, count, total_ns: totalNs } = this.result;
    if (error) return error;
    if (!count) return 'no match';
    const matches = `${formatCount(count)} ${count === 1 ? 'match' : 'matches'}`;
    const share = formatShare(totalNs, this.zoomNs);
    return this.at < 0 ? `${share} in ${matches}` : `${share} · ${this.at + 1} of ${matches}`;
  }
}
