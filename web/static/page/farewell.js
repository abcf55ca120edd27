// When flametap ends, the recording is only in its memory: asks the user whether to save it. Meanwhile flametap stays,
// as long as this page says so.

import { isReport, postJson } from '../server/connection.js';
import { byId, setText } from './dom.js';

const LOOK_MS = 1500; // from the end of the recording on; GRACE_S in web/farewell.py is longer
const STAY_MS = 1000;

export class Farewell {
  /** @param on {save(format) → promise of what was done} */
  constructor(on) {
    this.on = on;
    this.page = crypto.randomUUID?.() ?? String(Math.random());
    this.dialog = byId('farewell');
    this.isLooking = false;
    this.wasAsked = false;
    this.dialog.addEventListener('close', () => this.tell(false));
    byId('farewell-no').addEventListener('click', () => this.dialog.close());
    for (const button of this.dialog.querySelectorAll('[data-format]')) {
      button.addEventListener('click', () => this.save(button.dataset.format));
    }
  }

  /** Takes each status. Once the recording has ended, looks whether flametap leaves. */
  update(status) {
    if (isReport || this.isLooking || status.state !== 'ended') return;
    this.isLooking = true;
    this.look();
  }

  async look() {
    const isAsking = this.dialog.open;
    // Hidden pages could not ask anybody.
    if (isAsking || !document.hidden) {
      const isLeaving = await this.tell(isAsking);
      if (isLeaving === null) {
        this.dialog.close();
        return;
      }
      if (isLeaving && !this.wasAsked) {
        this.wasAsked = true;
        setText(byId('farewell-text'), 'The recording is only in its memory. It waits for your answer, up to three minutes.');
        this.dialog.showModal();
        await this.tell(true);
      }
    }
    setTimeout(() => this.look(), this.dialog.open ? STAY_MS : LOOK_MS);
  }

  /** Says whether flametap shall stay. Returns whether it is leaving; null if it is gone. */
  async tell(stay) {
    try {
      return (await postJson('leaving', { page: this.page, stay })).leaving;
    } catch {
      return null;
    }
  }

  async save(format) {
    setText(byId('farewell-text'), 'Saving …');
    try {
      setText(byId('farewell-text'), await this.on.save(format));
      byId('farewell-no').textContent = 'Done';
    } catch (error) {
      setText(byId('farewell-text'), `Could not save: ${error.message}`);
    }
  }
}
