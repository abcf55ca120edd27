// The keyboard, and the help that lists its keys.

import { byId, isTyping } from './dom.js';

const help = byId('help');

export function showHelp() {
  help.showModal();
}

function listenToHelp() {
  byId('help-button').addEventListener('click', showHelp);
  byId('help-close').addEventListener('click', () => help.close());
  help.addEventListener('click', (event) => {
    if (event.target === help) help.close(); // the backdrop
  });
}

/**
 * Calls the action of each key.
 *
 * @param actions key → function; letters in lower case mean both
 * @param before called with the key of each event, also without an action
 */
export function listenToKeys(actions, before) {
  listenToHelp();
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    before(event.key);
    if (isTyping(event) && event.key !== 'Escape') return;
    const action = actions[event.key] ?? (event.shiftKey ? null : actions[event.key.toLowerCase()]);
    if (!action) return;
    event.preventDefault();
    action();
  });
}
