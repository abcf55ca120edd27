// The newest status: from the server's events, and now and then asked for with what those leave out.

import { Connection, fetchJson } from './connection.js';

const GAP_MS = 1000; // threads and symbols change slowly and are read, not watched

export class Feed {
  /** @param on {status(status, isOtherState), whole(status, threads), line(line)} */
  constructor(on) {
    this.on = on;
    this.status = null; // model.Status of the last event, with the symbols asked for last
    this.askedAt = -Infinity;
    this.timer = 0;
    this.connection = new Connection({
      onStatus: (event) => this.take(event),
      onState: (line) => this.setLine(line),
    });
  }

  open() {
    this.connection.open();
  }

  take(event) {
    const isOtherState = event.state !== this.status?.state;
    this.status = { ...event, symbols: this.status?.symbols ?? [] };
    this.on.status(this.status, isOtherState);
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
    this.askedAt = performance.now();
    clearTimeout(this.timer);
    let answer;
    try {
      answer = await fetchJson('status');
    } catch {
      return; // The connection says what is wrong; the next event asks again.
    }
    this.status = answer.status;
    this.on.whole(this.status, answer.threads);
  }

  setLine(line) {
    this.on.line(line);
    if (line === 'complete') this.ask();
  }
}
