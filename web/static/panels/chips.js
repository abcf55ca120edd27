// The steps that shape the view, as chips: what is hidden, folded or focused on. A click undoes one.

import { byId, h } from '../page/dom.js';
import { describeStep, describeTarget, removeStep } from '../model/shape.js';

export class Chips {
  /** @param onChange called with the changed part of the state */
  constructor(onChange) {
    this.onChange = onChange;
    this.bar = byId('chips');
    this.key = '';
  }

  /** @param steps of the view: for each step 1, or 0 if it means no function of the recording */
  update({ shape, sandwich }, steps = []) {
    const key = JSON.stringify([shape, sandwich, steps]);
    if (key === this.key) return;
    this.key = key;
    const hadFocus = this.bar.contains(document.activeElement);
    const chips = shape.map((step, at) => {
      const { label, target, title } = describeStep(step);
      const isHere = steps[at] ?? true;
      const undo = () => this.onChange({ shape: removeStep(shape, step) });
      return this.chip(label, target, isHere ? title : 'No such function in this recording.', undo, isHere);
    });
    if (sandwich) {
      const title = 'What calls it is above, what it calls is below.';
      const close = () => this.onChange({ sandwich: '' });
      chips.push(this.chip('Callers and callees of', describeTarget(sandwich), title, close));
    }
    if (chips.length > 1) {
      const all = () => this.onChange({ shape: [], sandwich: '' });
      chips.push(h('button', { type: 'button', class: 'link chips-all', onclick: all }, 'Undo all'));
    }
    this.bar.replaceChildren(...chips);
    this.bar.hidden = chips.length === 0;
    if (hadFocus) (this.bar.querySelector('button') ?? byId('scroller')).focus();
  }

  chip(label, target, title, onclick, isHere = true) {
    const name = target ? `${label} ${target}` : label;
    return h(
      'button',
      { type: 'button', class: `chip${isHere ? '' : ' is-missing'}`, title: `${title} Click to undo.`, 'aria-label': `Undo: ${name}`, onclick },
      h('span', { class: 'chip-label' }, label),
      target ? h('strong', { class: 'chip-target' }, target) : null,
      h('span', { class: 'chip-close', 'aria-hidden': 'true' }, '×'),
    );
  }
}
