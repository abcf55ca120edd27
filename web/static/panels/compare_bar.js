// What the view is compared with, how, and what the colours mean.

import { byId, choice, h, setText } from '../page/dom.js';
import { compareWith, isFile, learnOthers } from '../model/files.js';
import { changeColor, describeRange, stripeColor } from '../model/change.js';

const LEGEND = [
  ['▼ less here', -2],
  ['noise', 0],
  ['▲ more here', 2],
];
const MAX_BUTTONS = 3; // for other recordings; more are in a menu

export class CompareBar {
  /**
   * @param onChange called with the changed part of the state
   * @param menu the page's (page/menu.js)
   */
  constructor(onChange, menu) {
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
    this.others = JSON.parse(this.bar.dataset.others || '[]'); // [number, name] of each other recording
    learnOthers(this.others);
    this.withFiles = this.fileButtons(onChange, menu);
    this.parts = [this.here, close, this.swap, this.scale.element, this.width.element, this.found, this.legend];
    this.bar.append(this.rest, ...this.withFiles, ...this.parts);
  }

  /** Returns a button for each other recording; of many, one with a menu. */
  fileButtons(onChange, menu) {
    const choices = this.others.map(([number, label]) => ({ label, action: () => onChange({ compare: compareWith(number) }) }));
    const button = (text, onclick) => h('button', { type: 'button', class: 'button small', title: 'What is different in this recording from the other one', onclick }, text);
    if (choices.length <= MAX_BUTTONS) return choices.map(({ label, action }) => button(`Compare with ${label}`, action));
    const open = ({ currentTarget }) => {
      const { left, bottom } = currentTarget.getBoundingClientRect();
      menu.open({ x: left, y: bottom }, 'Compare with', choices);
    };
    const one = button('Compare with …', open);
    one.setAttribute('aria-haspopup', 'menu');
    return [one];
  }

  group(label, onChoose, values) {
    const buttons = values.map(([value, text, title]) => h('button', { type: 'button', 'data-value': value, title }, text));
    const element = h('div', { class: 'segmented small', role: 'group', 'aria-label': label }, buttons);
    return { element, show: choice(element, onChoose) };
  }

  update({ range, compare, scale, widthOf }) {
    this.bar.hidden = !compare && !range && !this.others.length;
    for (const each of this.withFiles) each.hidden = compare !== '';
    this.rest.hidden = compare !== '' || range === '';
    for (const part of this.parts) part.hidden = compare === '';
    setText(this.other, isFile(compare) && this.others.length === 1 ? this.others[0][1] : describeRange(compare));
    setText(this.here, range ? `Here: ${describeRange(range)}` : 'Here: all');
    this.swapped = { range: compare, compare: range };
    if (!range || compare === 'rest' || isFile(compare)) this.swap.hidden = true;
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
