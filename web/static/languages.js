// Which functions are shown: the choice of a language, the interpreter's own functions, and the legend
// of colours. Only recordings with Python functions have them.

import { ORIGINS } from './color.js';
import { byId, choice, h } from './dom.js';

export class Languages {
  /** @param onChange called with the changed part of the state: {language} or {plumbing} */
  constructor(onChange) {
    this.show = choice(byId('language'), (language) => onChange({ language }));
    this.plumbing = byId('plumbing');
    this.plumbing.addEventListener('change', () => onChange({ plumbing: this.plumbing.checked }));
    this.hasPython = false;
  }

  /** Shows the state. The interpreter's own functions are a choice among all functions only. */
  update({ language, plumbing }) {
    this.show(language);
    this.plumbing.checked = plumbing;
    byId('plumbing-choice').hidden = !this.hasPython || language !== 'all';
  }

  /** Shows or hides the controls, by model.Status.has_python. */
  setPython(hasPython, state) {
    this.hasPython = hasPython;
    byId('language').hidden = !hasPython;
    byId('legend').hidden = !hasPython;
    this.update(state);
  }

  setPalette(palette) {
    const rows = ORIGINS.map(({ origin, label, text }) => {
      const swatch = h('span', { class: 'swatch' });
      swatch.style.background = palette.origin(origin);
      return h('li', { title: text }, swatch, label);
    });
    byId('legend').replaceChildren(...rows);
  }
}
