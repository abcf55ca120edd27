// The bar between the graph and what is beside it. It is moved by mouse, finger or keyboard, and remembered.

import { byId } from './dom.js';

const KEY = 'flametap.split';
const [LEAST, USUAL, MOST] = [20, 58, 80]; // of the width, in per cent
const STEP = 2;

function remembered() {
  try {
    return Number(localStorage.getItem(KEY)) || USUAL;
  } catch {
    return USUAL; // no storage
  }
}

export class Splitter {
  constructor() {
    this.element = byId('splitter');
    this.area = this.element.parentElement;
    this.set(remembered());
    this.element.addEventListener('pointerdown', (event) => this.grab(event));
    this.element.addEventListener('pointermove', (event) => this.drag(event));
    this.element.addEventListener('lostpointercapture', () => this.keep());
    this.element.addEventListener('dblclick', () => this.keep(USUAL));
    this.element.addEventListener('keydown', (event) => this.key(event));
  }

  set(percent) {
    this.percent = Math.max(LEAST, Math.min(MOST, percent));
    this.area.style.setProperty('--split', `${this.percent}%`);
    this.element.setAttribute('aria-valuenow', String(Math.round(this.percent)));
  }

  keep(percent = this.percent) {
    this.set(percent);
    try {
      localStorage.setItem(KEY, String(this.percent));
    } catch {
      // No storage: it lasts as long as the page.
    }
  }

  grab(event) {
    if (event.button !== 0) return;
    event.preventDefault();
    this.element.focus();
    this.element.setPointerCapture(event.pointerId);
  }

  drag(event) {
    if (!this.element.hasPointerCapture(event.pointerId)) return;
    const { left, width } = this.area.getBoundingClientRect();
    this.set((100 * (event.clientX - left)) / width);
  }

  key(event) {
    const steps = { ArrowLeft: this.percent - STEP, ArrowRight: this.percent + STEP, Home: LEAST, End: MOST };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.keep(steps[event.key]);
  }
}
