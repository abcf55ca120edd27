// The newest status: from the server's events, and now and then asked for with what those leave out.

import { Connection, fetchJson } from './connection.js';

const GAP_MS = 1000; // threads and symbols change slowly and are read, not watched
const RETRY_MS = 2000; // where no event will come that asks again, and ever later
const RETRY_MAX_MS = 60_000;

export class Feed {
  /** @param on {status(status), whole(status, threads), line(line)} */
  constructor(on) {
    this.on = on;
    this.status = null; // model.Status of the last event, with the symbols asked for last
    this.events = 0; // so far
    this.asked = 0; // requests so far
    this.taken = 0; // the last of them whose answer was used
    this.askedAt = -Infinity;
    this.timer = 0;
    this.line = 'connecting';
    this.retryMs = RETRY_MS;
    this.isWhole = false; // all is there, and nothing will change
    this.connection = new Connection({
      onStatus: (event) => this.take(event),
      onState: (line) => this.setLine(line),
    });
  }

  open() {
    this.connection.open();
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

  /** Asks for what the events leave out: threads and symbols. */
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
      // The connection says what is wrong, and the next event asks again, where one can come.
      if (this.line !== 'complete') return;
      this.askIn(this.retryMs);
      this.retryMs = Math.min(2 * this.retryMs, RETRY_MAX_MS);
      return;
    }
    if (mine < this.taken) return; // a later one was faster
    this.taken = mine;
    this.isWhole = line === 'complete';
    // What an event has said meanwhile is newer than an answer that was on its way.
    const isNewest = events === this.events;
    this.status = isNewest ? answer.status : { ...this.status, symbols: answer.status.symbols };
    this.on.whole(this.status, answer.threads);
  }

  setLine(line) {
    this.line = line;
    this.on.line(line);
    if (line === 'complete') this.ask();
  }
}
