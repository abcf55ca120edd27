// What a user keeps of the page, and what the recording does for it: saving, freezing, rate and budget, the question at
// the end.

import { Farewell } from './farewell.js';
import { Freeze } from './freeze.js';
import { printOnWhite } from './paper.js';
import { Save } from './save.js';
import { Settings } from './settings.js';
import { say } from './toast.js';

export class Keeping {
  /**
   * @param getState the page's state
   * @param graph whose view is saved
   * @param on {change(patch), status() → model.Status, ask(): the status is out of date}
   */
  constructor(getState, graph, { change, status, ask }) {
    this.save = new Save(getState, graph, { status, say });
    this.settings = new Settings({ status, changed: ask, say });
    this.freeze = new Freeze(getState, { status, change });
    this.farewell = new Farewell({ save: (format) => this.save.saveExport(format) });
    this.keys = { e: () => this.save.toggle(), z: () => this.freeze.toggle() };
    printOnWhite(graph);
  }

  /** True while newer data is not wanted. */
  get isHeld() {
    return this.freeze.isFrozen;
  }

  /** Takes the state, after each change, and each status. */
  update(status = null) {
    this.freeze.update();
    if (status) this.farewell.update(status);
  }

  /** Closes a panel. Returns whether there was one. */
  close() {
    return this.save.close() || this.settings.close();
  }
}
