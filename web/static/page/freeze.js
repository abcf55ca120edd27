// Freezes the view while the recording goes on: everything is shown as of one moment. It is a range of time that ends
// there, so that every table, source line and export has the same moment.

import { byId, setText } from './dom.js';
import { frozenAtMs, frozenRange } from '../model/keep.js';
import { formatSeconds } from '../model/format.js';

export class Freeze {
  /** @param on {change(patch), status() → model.Status} */
  constructor(getState, on) {
    Object.assign(this, { getState, on });
    this.range = null; // that the freeze has set; null while live
    this.before = ''; // the range to return to
    this.button = byId('freeze');
    this.button.addEventListener('click', () => this.toggle());
  }

  /** True while the view shows a past moment by the user's wish, so that newer data need not be requested. */
  get isFrozen() {
    return this.range !== null && this.getState().range === this.range;
  }

  get canFreeze() {
    return ['recording', 'paused'].includes(this.on.status()?.state);
  }

  toggle() {
    if (this.isFrozen) {
      this.on.change({ range: this.before });
    } else if (this.canFreeze) {
      this.before = this.getState().range;
      this.range = frozenRange(this.before, Math.floor(this.on.status().duration_ns / 1e6));
      this.on.change({ range: this.range });
    }
  }

  /** Shows whether the view is frozen; called after each change of the state and each status. */
  update() {
    const { isFrozen } = this;
    if (!isFrozen) this.range = null;
    this.button.hidden = !isFrozen && !this.canFreeze;
    this.button.setAttribute('aria-pressed', String(isFrozen));
    const moment = isFrozen ? formatSeconds(frozenAtMs(this.range) / 1000) : '';
    setText(byId('freeze-text'), isFrozen ? `Frozen at ${moment}` : 'Freeze');
    this.button.title = isFrozen ? 'Return to live (Z)' : 'Keep this view as it is while the recording goes on (Z)';
  }
}
