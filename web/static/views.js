// Asks the server for views: at once when the user wants another one, paced when there are news.

import { HttpError, fetchJson } from './connection.js';
import { BoxView } from './layout.js';
import { Pacer, viewQuery } from './state.js';

export class Views {
  /**
   * @param on {show(view, isNewPlace), failed(message), offline()}
   * @param geometry returns {width, rows} to ask for
   */
  constructor(getState, geometry, on) {
    Object.assign(this, { getState, geometry, on });
    this.current = null; // the view shown
    this.newest = 0; // revision that the server has
    this.pacer = new Pacer();
    this.timer = 0;
    this.sequence = 0;
    this.underWay = new AbortController();
  }

  /** The server has something newer. */
  news(revision) {
    this.newest = revision;
    if (!this.current || revision > this.current.revision) this.pacer.news();
    this.schedule();
  }

  /** Also called when a page comes back to sight: hidden ones ask for nothing. */
  schedule() {
    const wait = document.hidden ? null : this.pacer.delay(performance.now());
    clearTimeout(this.timer);
    if (wait !== null) this.timer = setTimeout(() => this.request({ isLive: true }), wait);
  }

  /** Asks now; an answer that is still on its way is not wanted any more. */
  async request({ isNewPlace = false, isLive = false } = {}) {
    this.underWay.abort();
    this.underWay = new AbortController();
    const mine = ++this.sequence;
    if (this.pacer.startedAt !== null) this.pacer.finished(performance.now());
    this.pacer.started(performance.now());
    clearTimeout(this.timer);
    // A user's wish is answered from the tree the server has; only news make it build a new one.
    const revision = isLive ? this.newest : (this.current?.revision ?? 0);
    let isAnswered = false;
    try {
      const query = viewQuery(this.getState(), { ...this.geometry(), revision });
      const answer = await fetchJson(`view?${query}`, { signal: this.underWay.signal });
      isAnswered = true;
      if (mine === this.sequence) {
        this.current = new BoxView(answer);
        this.on.show(this.current, isNewPlace);
      }
    } catch (error) {
      if (isAnswered) throw error; // a fault of ours, not of the line
      if (error instanceof HttpError) this.on.failed(error.message);
      else if (mine === this.sequence) this.on.offline();
    } finally {
      if (mine === this.sequence) {
        this.pacer.finished(performance.now());
        if (isAnswered && this.newest > this.current.revision) this.pacer.news();
        this.schedule();
      }
    }
  }
}
