// Requests the modules' shares of the profile while somebody looks at them.

import { fetchJson } from './connection.js';
import { weightQuery } from '../model/state.js';

export class Modules {
  /** @param on {isWanted(), show(report, state)} */
  constructor(getState, on) {
    Object.assign(this, { getState, on });
    this.nextAt = -Infinity; // the earliest time of the next request while recording
  }

  async fetch({ isLive = false } = {}) {
    const began = performance.now();
    if (!this.on.isWanted() || (isLive && began < this.nextAt)) return;
    this.nextAt = Infinity; // one at a time
    const query = weightQuery(this.getState());
    try {
      const report = await fetchJson(`symbols?${query}`);
      if (query === weightQuery(this.getState())) this.on.show(report, this.getState());
    } catch {
      return; // the next status asks again
    } finally {
      // Requests take at most a third of the time.
      this.nextAt = performance.now() + 2 * (performance.now() - began);
    }
  }
}
