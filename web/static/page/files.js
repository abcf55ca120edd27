// The switch between recordings: a menu of links to the page of each, which open with what is shown here.

import { stateThere } from '../model/files.js';
import { toHash } from '../model/state.js';
import { setText } from './dom.js';
import { Popover } from './popover.js';
import { say } from './toast.js';

const KEYS = { ArrowDown: 1, ArrowUp: -1 };

export class Files {
  constructor(getState) {
    this.getState = getState;
    if (!document.getElementById('files-button')) return; // there is only one
    this.popover = new Popover('files-button', 'files-panel', () => this.opened());
    const { panel } = this.popover;
    this.links = [...panel.querySelectorAll('a')];
    this.places = new Map(this.links.map((link) => [link, link.href]));
    this.shown = panel.querySelector('[aria-current]');
    for (const link of this.links) {
      setText(link, link.textContent);
      link.addEventListener('click', (event) => this.clicked(event, link));
    }
    setText(this.popover.button.querySelector('span'), this.shown.textContent);
    panel.addEventListener('keydown', (event) => this.key(event));
  }

  close() {
    return this.popover?.close() ?? false;
  }

  /** Puts the state into the links, so that they can be opened in other tabs, too. */
  opened() {
    for (const link of this.links) link.href = this.placeOf(link);
    this.shown.focus();
  }

  placeOf(link) {
    const [own, next] = [this.shown, link].map((each) => Number(each.dataset.number));
    const state = this.getState();
    return this.places.get(link) + toHash(own === next ? state : stateThere(state, own, next));
  }

  key(event) {
    if (!(event.key in KEYS)) return;
    const { length } = this.links;
    const at = this.links.indexOf(document.activeElement);
    this.links[(at + KEYS[event.key] + length) % length].focus();
    event.preventDefault();
  }

  async clicked(event, link) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // the browser opens another tab or window
    event.preventDefault();
    this.close();
    if (link === this.shown) return;
    this.wanted = link;
    say(`Opening ${link.textContent} …`);
    // This page stays if the file cannot be opened.
    try {
      const response = await fetch(`${this.places.get(link)}api/status`);
      if (!response.ok) throw new Error((await response.json()).error);
      if (link === this.wanted) location.assign(this.placeOf(link));
    } catch (error) {
      say(error instanceof TypeError ? 'flametap does not answer.' : error.message); // fetch's own error
    }
  }
}
