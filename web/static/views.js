// Asks the server for views: at once when the user wants another one, paced when there are news, and
// again what it did not answer.

import { HttpError, fetchJson } from './connection.js';
import { BoxView } from './layout.js';
import { Pacer, viewQuery } from './state.js';

const PATIENCE_MS = 1000;

export class Views {
  /**
   * @param on {show(view, isNewPlace), failed(message), offline({isLive})}; isLive: no wish of the
   *   user's was left unanswered
   * @param geometry returns {width, rows} to ask for
   */
  constructor(getState, geometry, on) {
    Object.assign(this, { getState, geometry, on });
    this.current = null; // the view shown
    this.newest = 0; // revision that the server has
    this.pacer = new Pacer();
    this.line = 'connecting'; // to the server, as Connection calls it
    this.timer = 0;
    this.isNewPlace = false; // what is asked for now …
    this.isLive = false; // … and whether by news alone, by no wish of the user's
    this.patience = 0; // timer: for an answer over a line that is lost
    this.underWay = new AbortController();
  }

  /** The server has something newer. */
  news(revision) {
    this.newest = revision;
    if (!this.current || revision > this.current.revision) this.pacer.news();
    this.schedule();
  }

  /** What was on its way over a line that broke may never arrive, nor say so. */
  setLine(line) {
    const isBack = this.line === 'lost' && line === 'live';
    this.line = line;
    if (isBack) this.request({ isLive: true });
    else if (line === 'lost' && this.pacer.startedAt !== null) this.giveUp();
    else this.schedule();
  }

  giveUp() {
    this.underWay.abort();
    this.fail(null);
  }

  /** Also called when a page comes back to sight: hidden ones ask for nothing. */
  schedule() {
    const canAsk = !document.hidden && !['lost', 'closed'].includes(this.line);
    const wait = canAsk ? this.pacer.delay(performance.now()) : null;
    clearTimeout(this.timer);
    if (wait !== null) this.timer = setTimeout(() => this.request({ isLive: true }), wait);
  }

  /** Asks now; an answer that is still on its way is not wanted any more. */
  async request({ isNewPlace = false, isLive = false } = {}) {
    this.underWay.abort();
    this.underWay = new AbortController();
    const { signal } = this.underWay;
    if (this.pacer.startedAt !== null) this.pacer.finished(performance.now());
    this.pacer.started(performance.now());
    clearTimeout(this.timer);
    clearTimeout(this.patience);
    if (this.line === 'lost') this.patience = setTimeout(() => this.giveUp(), PATIENCE_MS);
    this.isNewPlace ||= isNewPlace;
    this.isLive = isLive;
    // A user's wish is answered from the tree the server has; only news make it build a new one.
    const revision = isLive ? this.newest : (this.current?.revision ?? 0);
    const asked = this.getState();
    const query = viewQuery(asked, { ...this.geometry(), revision });
    let answer;
    try {
      answer = await fetchJson(`view?${query}`, { signal });
    } catch (error) {
      if (!signal.aborted) this.fail(error);
      return;
    }
    if (!signal.aborted) this.take(answer, asked, signal);
  }

  take(answer, asked, signal) {
    clearTimeout(this.patience);
    const { isNewPlace } = this;
    this.isNewPlace = false;
    try {
      this.current = new BoxView(answer, asked);
      this.on.show(this.current, isNewPlace);
    } finally {
      if (!signal.aborted) {
        this.pacer.finished(performance.now());
        if (this.newest > this.current.revision) this.pacer.news();
        this.schedule();
      }
    }
  }

  fail(error) {
    clearTimeout(this.patience);
    const now = performance.now();
    if (error instanceof HttpError) {
      this.pacer.finished(now); // to be told that there is no such view is an answer
      this.on.failed(error.message);
    } else {
      this.pacer.failed(now);
      this.on.offline({ isLive: this.isLive });
    }
    this.schedule();
  }
}
