// A panel below a button: it opens by the button, and closes by it, by Escape, and by a click elsewhere.

import { byId } from './dom.js';

export class Popover {
  /** @param onOpen called after it has opened */
  constructor(buttonId, panelId, onOpen = () => {}) {
    this.button = byId(buttonId);
    this.panel = byId(panelId);
    this.onOpen = onOpen;
    this.button.addEventListener('click', () => this.toggle());
    document.addEventListener('pointerdown', (event) => {
      const isOurs = this.panel.contains(event.target) || this.button.contains(event.target);
      if (this.isOpen && !isOurs) this.toggle(false);
    });
  }

  get isOpen() {
    return !this.panel.hidden;
  }

  toggle(isOpen = !this.isOpen) {
    this.panel.hidden = !isOpen;
    this.button.setAttribute('aria-expanded', String(isOpen));
    if (isOpen) this.onOpen();
  }

  /** Closes it. Returns whether it was open. */
  close() {
    if (!this.isOpen) return false;
    this.toggle(false);
    this.button.focus();
    return true;
  }
}
