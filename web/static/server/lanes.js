// Requests the lanes of the timeline: at once when another time is shown, and newer bins while the recording grows.

import { fetchJson } from './connection.js';
import { Lanes } from '../model/timeline.js';

const GAP_MS = 1000; // between two requests for newer bins
const WHOLE_MS = 15_000; // what was told late changes older bins: they are fetched again after this time
const LATE_MS = 3000; // a request for newer bins goes back so far
const RETRY_MS = 4000;

export class LaneFeed {
  /**
   * @param wanted returns {from, to (null: now), bins, lanes, skip, idle, threads} to ask for; null for nothing
   * @param on {show(lanes), failed()}
   */
  constructor(wanted, on) {
    Object.assign(this, { wanted, on });
    this.lanes = null;
    this.query = ''; // of `lanes`, without what only extends them
    this.wholeAt = -Infinity;
    this.nextAt = 0;
    this.timer = 0;
    this.newest = 0;
    this.underWay = new AbortController();
  }

  /** Notes the newest revision of the server. */
  news(revision) {
    this.newest = revision;
    if (this.lanes && revision <= this.lanes.revision) return;
    this.schedule();
  }

  /** Makes the next request one for all bins. */
  forget() {
    this.wholeAt = -Infinity;
  }

  schedule() {
    if (this.timer || document.hidden) return;
    this.timer = setTimeout(() => this.request({ isLive: true }), Math.max(0, this.nextAt - performance.now()));
  }

  /** Requests now. With `isLive`, only the newer bins if that is enough. */
  async request({ isLive = false } = {}) {
    clearTimeout(this.timer);
    this.timer = 0;
    const wanted = this.wanted();
    if (!wanted) return;
    this.underWay.abort();
    this.underWay = new AbortController();
    const { signal } = this.underWay;
    const began = performance.now();
    this.nextAt = began + GAP_MS;
    const query = String(wanted.query);
    const isPart = isLive && this.canExtend(wanted, query, began);
    try {
      const answer = await fetchJson(`lanes?${isPart ? this.partQuery(wanted) : query}`, { signal });
      if (signal.aborted) return;
      this.take(new Lanes(answer), { isPart, query, began });
    } catch (error) {
      if (signal.aborted) return;
      this.nextAt = performance.now() + RETRY_MS;
    }
    // Requests take at most a third of the time.
    this.nextAt = Math.max(this.nextAt, performance.now() + 2 * (performance.now() - began));
    if (this.lanes && this.newest > this.lanes.revision) this.schedule();
  }

  canExtend(wanted, query, now) {
    const { lanes } = this;
    if (!lanes || query !== this.query || wanted.to !== null || now - this.wholeAt > WHOLE_MS) return false;
    return lanes.bins.count < wanted.bins; // another level of bins otherwise
  }

  partQuery({ query }) {
    const part = new URLSearchParams(query);
    const { bins } = this.lanes;
    part.set('from', Math.max(Math.round(bins.start), Math.round(bins.end - LATE_MS)));
    part.set('level', bins.level);
    if (this.lanes.lanes.length) part.set('only', this.lanes.ids.join(','));
    return part;
  }

  take(answer, { isPart, query, began }) {
    if (isPart && !this.lanes.extend(answer)) {
      this.forget();
      return;
    }
    if (!isPart) {
      Object.assign(this, { lanes: answer, query, wholeAt: began });
    }
    this.on.show(this.lanes);
  }
}
