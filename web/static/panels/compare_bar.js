// What the view is compared with, how, and what the colours mean.

import { byId, choice, h, setText } from '../page/dom.js';
import { changeColor, describeRange, stripeColor } from '../model/change.js';

const LEGEND = [
  ['▼ less here', -2],
  ['noise', 0],
  ['▲ more here', 2],
];

export class CompareBar {
  /** @param onChange called with the changed part of the state */
  constructor(onChange) {
    this.bar = byId('compare');
    this.what = h('span', { class: 'chip-label' });
    const close = h(
      'button',
      { type: 'button', class: 'chip', 'aria-label': 'Undo: comparison', title: 'Click to end the comparison.', onclick: () => onChange({ compare: '' }) },
      h('span', { class: 'chip-label' }, 'Compared with'),
      (this.other = h('strong', { class: 'chip-target' })),
      h('span', { class: 'chip-close', 'aria-hidden': 'true' }, '×'),
    );
    this.swap = h('button', { type: 'button', class: 'button small', title: 'Show the other range, and compare it with this one', onclick: () => onChange(this.swapped) }, '⇄ Swap');
    this.scale = this.group('Compared by', (scale) => onChange({ scale }), [
      ['share', 'Share', 'Shares of each range’s time'],
      ['time', 'Time per second', 'Time in each second of a range'],
    ]);
    this.width = this.group('Width of boxes', (widthOf) => onChange({ widthOf }), [
      ['here', 'Wide as here', 'Boxes are as wide as in the shown range'],
      ['both', 'as in both', 'Also what is only in the other range has boxes'],
    ]);
    this.legend = h('ul', { class: 'legend compare-legend', 'aria-label': 'Colours of changes' });
    this.here = h('span', { class: 'chip-label' });
    this.found = h('span', { class: 'dim', role: 'status' });
    this.rest = h(
      'button',
      { type: 'button', class: 'button small', title: 'What is different in this range from the rest of the recording', onclick: () => onChange({ compare: 'rest' }) },
      'Compare with the rest',
    );
    this.file = this.bar.dataset.other ?? ''; // the name of another recording
    this.withFile = h(
      'button',
      { type: 'button', class: 'button small', title: 'What is different in this recording from the other one', onclick: () => onChange({ compare: 'file' }) },
      `Compare with ${this.file}`,
    );
    this.parts = [this.here, close, this.swap, this.scale.element, this.width.element, this.found, this.legend];
    this.bar.append(this.rest, this.withFile, ...this.parts);
  }

  group(label, onChoose, values) {
    const buttons = values.map(([value, text, title]) => h('button', { type: 'button', 'data-value': value, title }, text));
    const element = h('div', { class: 'segmented small', role: 'group', 'aria-label': label }, buttons);
    return { element, show: choice(element, onChoose) };
  }

  update({ range, compare, scale, widthOf }) {
    this.bar.hidden = !compare && !range && !this.file;
    this.withFile.hidden = compare !== '' || !this.file;
    this.rest.hidden = compare !== '' || range === '';
    for (const part of this.parts) part.hidden = compare === '';
    setText(this.other, (compare === 'file' && this.file) || describeRange(compare));
    setText(this.here, range ? `Here: ${describeRange(range)}` : 'Here: all');
    this.swapped = { range: compare, compare: range };
    if (!range || compare === 'rest' || compare === 'file') this.swap.hidden = true;
    this.scale.show(scale);
    this.width.show(widthOf);
  }

  /** Says if a view (layout.BoxView) has no colour but grey. */
  showFound({ comparison, boxes }) {
    const isAlike = comparison && boxes.change.every((grade) => grade === 0);
    setText(this.found, isAlike ? 'No more difference than chance makes.' : '');
  }

  setTheme(theme) {
    const rows = LEGEND.map(([text, grade]) => {
      const swatch = h('span', { class: 'swatch' });
      swatch.style.backgroundColor = changeColor(theme, grade, { here: grade > 0 ? 1 : 0, there: grade > 0 ? 0 : 1 });
      if (grade < 0) swatch.style.backgroundImage = `repeating-linear-gradient(135deg, transparent 0 3px, ${stripeColor(theme)} 3px 5px)`;
      return h('li', {}, swatch, text);
    });
    this.legend.replaceChildren(...rows);
  }
}
