// How often samples are taken, and what they may cost: shown in the header, and changed while recording.

import { postJson } from '../server/connection.js';
import { byId, setText } from './dom.js';
import { Popover } from './popover.js';

export class Settings {
  /** @param on {status() → model.Status, changed(), say(text)} */
  constructor(on) {
    this.on = on;
    this.popover = new Popover('rate', 'settings-panel', () => this.fill());
    this.form = byId('settings-form');
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    this.rate = byId('settings-rate');
    this.budget = byId('settings-budget');
  }

  close() {
    return this.popover.close();
  }

  fill() {
    const { asked_rate_hz: rateHz, budget_ppm: ppm, state } = this.on.status() ?? {};
    this.rate.value = rateHz ? String(rateHz) : '';
    this.budget.value = ppm === undefined ? '' : String(ppm / 10_000);
    const canChange = ['recording', 'paused'].includes(state);
    for (const element of this.form.elements) element.disabled = !canChange;
    this.tell(canChange ? '' : 'The recording has ended.');
    this.rate.focus();
  }

  tell(text) {
    setText(byId('settings-error'), text);
    byId('settings-error').hidden = text === '';
  }

  async submit() {
    const given = { rate_hz: this.rate.valueAsNumber, budget_percent: this.budget.valueAsNumber };
    if (Object.values(given).some(Number.isNaN)) {
      this.tell('Both must be numbers.');
      return;
    }
    try {
      await postJson('settings', given);
    } catch (error) {
      this.tell(error.message);
      return;
    }
    this.popover.close();
    this.on.changed();
    this.on.say(`Sampling at ${given.rate_hz} Hz from now on, within ${given.budget_percent} % of a core`);
  }
}
