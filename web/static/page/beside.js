// Graph and table side by side: on wide screens only, where both have room.

import { byId } from './dom.js';
import { Splitter } from './splitter.js';

const wide = matchMedia('(min-width: 1200px)'); // as in css/beside.css

/** Returns what a state shows: the names of tabs. */
export function shownTabs({ tab, beside }) {
  if (!beside || !wide.matches) return [tab];
  return ['graph', tab === 'graph' ? 'functions' : tab];
}

export class Beside {
  /** @param onChange called with the changed part of the state, {beside} */
  constructor(getState, onChange) {
    Object.assign(this, { getState, onChange });
    this.splitter = new Splitter();
    byId('beside').addEventListener('click', () => this.toggle());
    wide.addEventListener('change', () => onChange({}));
  }

  toggle() {
    if (wide.matches) this.onChange({ beside: !this.getState().beside });
  }

  /** Marks the button. */
  update({ beside }) {
    byId('beside').setAttribute('aria-pressed', String(beside));
  }
}
