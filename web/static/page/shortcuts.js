// What each key does.

import { CLOCKS, LANGUAGES } from '../model/state.js';
import { toggleTheme } from './appearance.js';
import { showHelp } from './keys.js';

/**
 * Returns key → function, for listenToKeys.
 *
 * @param getState returns the state
 * @param change patches it
 * @param parts of the page, by name
 */
export function shortcuts(getState, change, parts) {
  const { beside, codes, freeze, header, languages, locks, quality, save, search, shaping, threads } = parts;
  const toggleTab = (tab) => change({ tab: getState().tab === tab ? 'graph' : tab });

  function nextLanguage() {
    const next = LANGUAGES[(LANGUAGES.indexOf(getState().language) + 1) % LANGUAGES.length];
    if (languages.hasPython) change({ language: next });
  }

  return {
    ...shaping.keys,
    '/': () => search.focus(),
    Escape: () => escape(getState, change, parts),
    0: () => change({ zoom: [] }),
    Backspace: () => change(getState().run ? { run: '' } : { zoom: getState().zoom.slice(0, -1) }),
    1: () => change({ clock: CLOCKS[0] }),
    2: () => change({ clock: CLOCKS[1] }),
    3: () => change({ clock: CLOCKS[2] }),
    a: () => codes.show('assembly'),
    b: () => beside.toggle(),
    d: toggleTheme,
    e: () => save.toggle(),
    f: () => toggleTab('functions'),
    g: () => (languages.hasGil || getState().gil) && change({ gil: !getState().gil }),
    i: () => change({ layout: getState().layout === 'flame' ? 'icicle' : 'flame' }),
    l: nextLanguage,
    n: () => search.step(1),
    N: () => search.step(-1),
    p: () => header.togglePause(),
    q: () => quality.toggle(),
    s: () => codes.show('source'),
    t: () => threads.toggle(),
    u: () => locks.toggle(),
    w: () => toggleTab('tree'),
    z: () => freeze.toggle(),
    '?': showHelp,
  };
}

/** Closes or clears one thing: a panel, else the selection, else the search, else the focus. */
function escape(getState, change, { code, files, graph, locks, quality, save, search, settings, shaping, threads }) {
  if (search.leave()) return;
  if (shaping.close() || threads.close() || save.close() || files.close() || settings.close() || code.close()) return;
  if (quality.isOpen) quality.toggle(false);
  else if (locks.isOpen) locks.toggle(false);
  else if (graph.selectedPath) graph.select(null);
  else if (getState().sandwich) change({ sandwich: '' });
  else if (!search.clear()) document.activeElement.blur();
}
