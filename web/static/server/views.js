// Requests views from the server: at once when the user changes the view, paced when the profile
// grows, and again after a request without an answer.

import { HttpError, fetchJson } from './connection.js';
import { BoxView } from '../model/layout.js';
import { Names } from '../model/names.js';
import { Pacer, viewQuery } from '../model/state.js';

const PATIENCE_MS = 1000;

export class Views {
  /**
   * @param on {show(view, isNewPlace), failed(message), offline({isLive}), isHeld()}; isLive: the request
   *   was for newer data, not for a change by the user; isHeld: newer data is not wanted
   * @param geometry returns {width, rows, table} to request
   */
  constructor(getState, geometry, on) {
    Object.assign(this, { getState, geometry, on });
    this.current = null; // the view shown
    this.names = new Names();
    this.newest = 0; // newest revision of the server
    this.pacer = new Pacer();
    this.line = 'connecting'; // state of the Connection
    this.timer = 0;
    this.isNewPlace = false; // the running request changes zoom, clock or threads
    this.isLive = false; // the running request is for newer data, not for a change by the user
    this.patience = 0; // timer of a request over a lost connection
    this.underWay = new AbortController();
  }

  /** Notes the newest revision of the server. */
  news(revision) {
    this.newest = revision;
    if (this.on.isHeld()) return;
    if (!this.current || revision > this.current.revision) this.pacer.news();
    this.schedule();
  }

  /** Notes the state of the connection. An answer over a lost connection may never arrive. */
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

  /** Schedules the next request. Also called when the page becomes visible: hidden pages request nothing. */
  schedule() {
    const canAsk = !document.hidden && !['lost', 'closed'].includes(this.line);
    const wait = canAsk ? this.pacer.delay(performance.now()) : null;
    clearTimeout(this.timer);
    if (wait !== null) this.timer = setTimeout(() => this.request({ isLive: true }), wait);
  }

  /** Requests a view now; aborts a running request. */
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
    // A change by the user uses the tree that the server has; only newer data makes it build another.
    const revision = isLive ? this.newest : (this.current?.revision ?? 0);
    const asked = this.getState();
    const query = viewQuery(asked, { ...this.geometry(), revision, have: this.names.answer });
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
      this.current = new BoxView(this.names.complete(answer), asked);
      this.on.show(this.current, isNewPlace);
    } finally {
      if (!signal.aborted) {
        this.pacer.finished(performance.now());
        if (this.newest > this.current.revision && !this.on.isHeld()) this.pacer.news();
        this.schedule();
      }
    }
  }

  fail(error) {
    clearTimeout(this.patience);
    const now = performance.now();
    if (error instanceof HttpError) {
      this.pacer.finished(now); // an HTTP error is an answer
      this.on.failed(error.message);
    } else {
      this.pacer.failed(now);
      this.on.offline({ isLive: this.isLive });
    }
    this.schedule();
  }
}
