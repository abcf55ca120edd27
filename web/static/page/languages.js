// What is shown of a program in Python, Java, JavaScript or Ruby: the choice of a language, the interpreter's own
// functions, and the time with the GIL only. Only recordings with such functions have them.

import { byId, choice } from './dom.js';

export class Languages {
  /** @param onChange called with the changed part of the state: {language}, {plumbing} or {gil} */
  constructor(onChange) {
    this.show = choice(byId('language'), (language) => onChange({ language }));
    this.plumbing = byId('plumbing');
    this.plumbing.addEventListener('change', () => onChange({ plumbing: this.plumbing.checked }));
    this.gil = byId('gil');
    this.gil.addEventListener('change', () => onChange({ gil: this.gil.checked }));
    this.hasPython = false;
    this.hasGil = false;
  }

  /** Shows the state. The interpreter's own functions are a choice among all functions only. */
  update({ language, plumbing, gil }) {
    this.show(language);
    this.plumbing.checked = plumbing;
    this.gil.checked = gil;
    byId('gil-choice').hidden = !this.hasGil && !gil;
    byId('plumbing-choice').hidden = !this.hasPython || language !== 'all';
  }

  /** Shows or hides the controls, by model.Status. */
  setPython({ languages, has_gil: hasGil }, state) {
    this.hasPython = languages.length > 0;
    this.hasGil = hasGil;
    byId('language').hidden = !this.hasPython;
    const name = languages.join(', ') || 'Python';
    byId('language').querySelector('[data-value=python]').textContent = name;
    this.update(state);
  }
}
