// A line of text that goes away by itself.

import { byId, setText } from './dom.js';

export const NOT_SAVED = 'A saved report shows only what was saved.';
const SHOWN_MS = 5000;
let timer = 0;

export function say(text) {
  setText(byId('toast'), text);
  byId('toast').hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => (byId('toast').hidden = true), SHOWN_MS);
}
