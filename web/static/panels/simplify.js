// The menu of what makes the graph simpler: chains, recursion, idle waits, whose code, upside down.

import { byId, h, icon } from '../page/dom.js';
import { toggleStep } from '../model/shape.js';

const CHOICES = [
  ['inverted', 'Upside down', 'Begin with the functions in which time was spent; their callers follow', 'v'],
  ['chains', 'Fold chains', 'Functions that do nothing but call the next one are one box', 'j'],
  ['recursion', 'Fold recursion', 'A function that calls itself directly is one box'],
  ['busy', 'Leave out idle waits', 'Waits for work, and sleeps: poll, accept, queues, nanosleep …'],
];
const ORIGINS = [
  ['fold:=library', 'Fold libraries'],
  ['fold:=stdlib', 'Fold the standard library'],
  ['fold:=native', 'Fold native code'],
  ['hide:=kernel', 'Hide system calls'],
];

export class Simplify {
  /** @param onChange called with the changed part of the state */
  constructor(onChange) {
    this.onChange = onChange;
    this.steps = [];
    this.boxes = new Map(); // step → its check box
    const rows = CHOICES.map(([step, label, title, key]) => this.row(step, label, title, key));
    this.byOrigin = h('div', { class: 'simplify-origins' }, ORIGINS.map(([step, label]) => this.row(step, label)));
    this.panel = h('section', { id: 'simplify-panel', class: 'popover simplify-panel', 'aria-label': 'Simplify', hidden: true });
    this.panel.append(...rows, this.byOrigin);
    const hint = 'More in the menu of a box: right click, or M.';
    this.panel.append(h('p', { class: 'note dim' }, hint));
    this.button = h(
      'button',
      { type: 'button', class: 'button', 'aria-expanded': 'false', 'aria-controls': 'simplify-panel', title: 'Show less: fold, hide, turn over' },
      icon('fold'),
      h('span', {}, 'Simplify'),
      icon('down'),
    );
    this.button.firstChild.classList.add('fold-icon');
    this.button.setAttribute('aria-label', 'Simplify');
    this.button.addEventListener('click', () => this.toggle());
    byId('simplify').append(this.button, this.panel);
    document.addEventListener('pointerdown', (event) => {
      if (!byId('simplify').contains(event.target)) this.toggle(false);
    });
  }

  row(step, label, title = null, key = null) {
    const box = h('input', { type: 'checkbox', onchange: () => this.press(step) });
    this.boxes.set(step, box);
    return h('label', { class: 'simplify-row', title }, box, h('span', {}, label), key ? h('kbd', {}, key.toUpperCase()) : null);
  }

  /** Adds a step, or takes it back. */
  press(step) {
    const isWay = step === 'inverted';
    this.onChange({ shape: toggleStep(this.steps, step), ...(isWay ? { zoom: [], sandwich: '' } : {}) });
  }

  toggle(isOpen = this.panel.hidden) {
    this.panel.hidden = !isOpen;
    this.button.setAttribute('aria-expanded', String(isOpen));
  }

  /** Closes the panel. Returns whether it was open. */
  close() {
    if (this.panel.hidden) return false;
    this.toggle(false);
    this.button.focus();
    return true;
  }

  update({ shape, clock }, hasPython) {
    this.steps = shape;
    for (const [step, box] of this.boxes) box.checked = shape.includes(step);
    this.byOrigin.hidden = !hasPython;
    this.boxes.get('busy').parentElement.hidden = clock === 'cpu' && !shape.includes('busy');
    this.button.classList.toggle('is-active', [...this.boxes.keys()].some((step) => shape.includes(step)));
  }
}
