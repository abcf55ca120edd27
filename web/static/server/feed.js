// The newest status: from the server's events, and from requests for symbols and the number of threads,
// which the events do not contain.

import { Connection, fetchJson } from './connection.js';

const GAP_MS = 1000; // between two requests: symbols change slowly
const RETRY_MS = 2000; // if no further event can trigger the next request; doubles each time
const RETRY_MAX_MS = 60_000;

export class Feed {
  /** @param on {status(status), whole(status, number of threads), line(line)} */
  constructor(on) {
    this.on = on;
    this.status = null; // model.Status of the last event, with the symbols of the last answer
    this.events = 0; // events so far
    this.asked = 0; // requests so far
    this.taken = 0; // number of the newest request whose answer was used
    this.askedAt = -Infinity;
    this.timer = 0;
    this.line = 'connecting';
    this.retryMs = RETRY_MS;
    this.isWhole = false; // what is requested is final
    this.connection = new Connection({
      onStatus: (event) => this.take(event),
      onState: (line) => this.setLine(line),
    });
  }

  open() {
    this.connection.open();
    this.ask(); // the first event may take longer
  }

  take(event) {
    this.events++;
    const isOtherState = event.state !== this.status?.state;
    this.status = { ...event, symbols: this.status?.symbols ?? [] };
    this.on.status(this.status);
    if (document.hidden) return;
    const wait = isOtherState ? 0 : Math.max(0, this.askedAt + GAP_MS - performance.now());
    this.askIn(wait);
  }

  askIn(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), ms);
  }

  /** Requests symbols and the number of threads, which the events do not contain. */
  async ask() {
    if (this.isWhole) return;
    this.askedAt = performance.now();
    clearTimeout(this.timer);
    const mine = ++this.asked;
    const { events, line } = this;
    let answer;
    try {
      answer = await fetchJson('status');
    } catch {
      // The connection reports the error. The next event asks again, unless there will be none.
      if (this.line !== 'complete') return;
      this.askIn(this.retryMs);
      this.retryMs = Math.min(2 * this.retryMs, RETRY_MAX_MS);
      return;
    }
    if (mine < this.taken) return; // a later request was answered first
    this.taken = mine;
    this.isWhole = line === 'complete';
    // An event that arrived meanwhile is newer than this answer.
    const isNewest = events === this.events;
    this.status = isNewest ? answer.status : { ...this.status, symbols: answer.status.symbols };
    this.on.whole(this.status, answer.thread_count);
  }

  setLine(line) {
    this.line = line;
    this.on.line(line);
    if (line === 'complete') this.ask();
  }
}
