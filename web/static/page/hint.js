// Three lines for who sees the page for the first time. They stay until they are put away.

import { byId } from './dom.js';

const KEY = 'flametap.hint';

function wasRead() {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return true; // no storage: better no hint than one at each visit
  }
}

/** @param onClose called when the hint is put away: the graph gets higher */
export function showHint(onClose) {
  const hint = byId('hint');
  hint.hidden = wasRead();
  byId('hint-close').addEventListener('click', () => {
    hint.hidden = true;
    try {
      localStorage.setItem(KEY, 'read');
    } catch {
      // It comes again with the next page.
    }
    onClose();
  });
}
