// Wires the page: state → requests → views → parts of the page. Decides nothing that can be
// decided without a DOM; that is in state, layout, format, explain and color.

import { byId, choice, h, icon, isTyping, setText } from './dom.js';
import { Palette } from './color.js';
import { Connection, HttpError, fetchJson, setPaused } from './connection.js';
import { Details } from './details.js';
import { formatCount, formatElapsed, formatNs, formatPlural, formatRate, formatShare, programName } from './format.js';
import { Functions } from './functions.js';
import { Graph } from './graph.js';
import { BoxView } from './layout.js';
import { Quality } from './quality.js';
import { CLOCKS, Pacer, ROWS_STEP, exactPattern, isStep, parseHash, rowsToAsk, toHash, viewQuery } from './state.js';
import { Threads } from './threads.js';

const STATUS_GAP_MS = 1000; // threads and symbols change slowly and are read, not watched
const SEARCH_GAP_MS = 150; // while typing
const LABEL_FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

let state = parseHash(location.hash);
let view = null; // the BoxView shown
let status = null; // model.Status of the last event, with the symbols fetched last
let newest = 0; // revision of the last event
let rows = ROWS_STEP;
let line = 'connecting';
let matchAt = -1; // which of the search's top matches N went to
let pendingReveal = null; // a path to select once its view is there
let pointed = null; // what the details card shows
const names = new Map(); // function id → name, for the breadcrumb

// --- state ---------------------------------------------------------------------------------------

function change(patch, { replace = false } = {}) {
  const before = state;
  state = { ...state, ...patch };
  const hash = toHash(state);
  if (hash !== toHash(before)) {
    const method = !replace && isStep(before, state) ? 'pushState' : 'replaceState';
    history[method](null, '', hash || location.pathname);
  }
  apply(before);
}

function apply(before) {
  const isZoom = String(before.zoom) !== String(state.zoom);
  showChoices();
  if (before.layout !== state.layout) graph.setFlame(state.layout === 'flame');
  if (before.search !== state.search) matchAt = -1;
  if (isZoom) {
    graph.zoomTo(state.zoom);
    showBreadcrumb();
  }
  if (before.tab !== state.tab) graph.layOut();
  const isOther = (key) => String(before[key]) !== String(state[key]);
  if (['clock', 'threads', 'zoom', 'search', 'tab', 'sort'].some(isOther)) {
    threads.update(threads.threads, state.threads, state.clock);
    request({ isNewPlace: isZoom || isOther('clock') || isOther('threads') });
  }
}

addEventListener('popstate', () => {
  const before = state;
  state = parseHash(location.hash);
  if (document.activeElement !== search) search.value = state.search;
  apply(before);
});

// --- views ---------------------------------------------------------------------------------------

const pacer = new Pacer();
let timer = 0;
let sequence = 0;
let underWay = new AbortController();

/** Asks for a view now; an answer that is still on its way is not wanted any more. */
async function request({ isNewPlace = false, revision = view?.revision ?? 0 } = {}) {
  underWay.abort();
  underWay = new AbortController();
  const mine = ++sequence;
  const asked = state;
  if (pacer.startedAt !== null) pacer.finished(performance.now());
  pacer.started(performance.now());
  clearTimeout(timer);
  try {
    const query = viewQuery(asked, { width: graph.width || innerWidth, rows, revision });
    const answer = await fetchJson(`view?${query}`, { signal: underWay.signal });
    if (mine === sequence) show(new BoxView(answer), isNewPlace);
  } catch (error) {
    if (error instanceof HttpError) say(error.message);
    // Otherwise there was no answer; the connection's own state says so already.
  }
  if (mine !== sequence) return;
  pacer.finished(performance.now());
  if (view && newest > view.revision && line === 'live') pacer.news();
  schedule();
}

function schedule() {
  const wait = document.hidden ? null : pacer.delay(performance.now());
  clearTimeout(timer);
  if (wait !== null) timer = setTimeout(() => request({ revision: newest }), wait);
}

function show(next, isNewPlace) {
  view = next;
  const f = view.functions;
  f.id.forEach((id, at) => names.set(id, f.name[at]));
  if (view.zoom.path.length < view.zoom.asked) {
    // Part of the path is gone (names became known, say): what is shown is what the URL says.
    state = { ...state, zoom: view.zoom.path };
    history.replaceState(null, '', toHash(state) || location.pathname);
  }
  graph.setView(view, isNewPlace);
  if (state.tab === 'functions') functions.update(view, { sort: state.sort, theme: theme() });
  if (pendingReveal) {
    graph.reveal(pendingReveal);
    pendingReveal = null;
  }
  showBreadcrumb();
  showSearch();
  showEmpty();
  document.documentElement.dataset.revision = view.revision;
}

// --- parts of the page -----------------------------------------------------------------------------

const details = new Details(byId('details'), { onZoom: (zoom) => change({ zoom }) });
const graph = new Graph(
  {
    scroller: byId('scroller'),
    spacer: byId('spacer'),
    boxCanvas: byId('boxes'),
    markCanvas: byId('marks'),
  },
  {
    zoom: (zoom) => change({ zoom }),
    point(info) {
      pointed = info;
      details.show(view, info, { clock: state.clock, theme: theme() });
      if (info?.isDocked) announce(info.box);
    },
    needRow(row) {
      if (!view) return;
      const wanted = rowsToAsk(row, view.last_row, view.deepest_row);
      if (wanted > rows) {
        rows = wanted;
        request();
      }
    },
  },
);
const threads = new Threads((chosen) => change({ threads: chosen }));
const functions = new Functions({
  sort: (sort) => change({ sort }),
  find(name) {
    search.value = exactPattern(name);
    change({ search: search.value, tab: 'graph' });
  },
});
const quality = new Quality();
const search = byId('search');

const showClock = choice(byId('clock'), (clock) => change({ clock }));
const showTab = choice(byId('tabs'), (tab) => change({ tab }));
const showLayout = choice(byId('layout'), (layout) => change({ layout }));

function showChoices() {
  showClock(state.clock);
  showTab(state.tab);
  showLayout(state.layout);
  byId('graph').hidden = state.tab !== 'graph';
  byId('functions').hidden = state.tab !== 'functions';
}

function announce(box) {
  const f = view.functionOf(box);
  const name = f ? f.name : view.isRun(box) ? 'narrow functions' : 'all';
  const share = formatShare(view.boxes.total_ns[box], view.total_ns);
  setText(byId('announcement'), `${name}, ${share} of all`);
}

function showBreadcrumb() {
  const nav = byId('breadcrumb');
  const path = state.zoom;
  const weight = view ? view.boxes.total_ns[view.zoom.box] : 0;
  const key = `${path}|${view?.total_ns}|${weight}|${path.map((id) => names.has(id))}`;
  if (nav.filledWith === key) return;
  nav.filledWith = key;
  const crumb = (label, zoom, isCurrent) =>
    h(
      'button',
      {
        type: 'button',
        class: 'crumb',
        'aria-current': isCurrent ? 'true' : null,
        title: label,
        onclick: () => change({ zoom }),
      },
      label,
    );
  const share = view ? `${formatNs(weight)} · ${formatShare(weight, view.total_ns)}` : '';
  byId('crumbs').replaceChildren(
    crumb('all', [], path.length === 0),
    ...path.flatMap((id, at) => [
      h('span', { class: 'separator', 'aria-hidden': 'true' }, '›'),
      crumb(names.get(id) ?? '…', path.slice(0, at + 1), at === path.length - 1),
    ]),
  );
  setText(byId('crumb-weight'), share);
  byId('zoom-reset').hidden = path.length === 0;
  const crumbs = byId('crumbs');
  crumbs.scrollLeft = crumbs.scrollWidth; // the end of the path is what is looked at
}

function showSearch() {
  const result = view?.search ?? null;
  const isBad = Boolean(result?.error);
  search.setAttribute('aria-invalid', String(isBad));
  byId('search-box').classList.toggle('is-bad', isBad);
  byId('search-box').classList.toggle('has-text', search.value !== '');
  const step = byId('search-step');
  step.hidden = !result || isBad || !result.count;
  let text = '';
  if (isBad) text = result.error;
  else if (result) {
    const whole = view.boxes.total_ns[view.zoom.box];
    text = result.count
      ? `${formatShare(result.total_ns, whole)} in ${formatPlural(result.count, 'match').replace(/matchs$/, 'matches')}`
      : 'no match';
  }
  setText(byId('search-result'), text);
}

function showEmpty() {
  const isEmpty = view.total_ns === 0;
  byId('empty').hidden = !isEmpty;
  if (!isEmpty) return;
  const none = { cpu: 'No CPU time', wall: 'No time', 'off-cpu': 'No off-CPU time' }[state.clock];
  const whose = state.threads.length ? ' in the chosen threads' : '';
  const isOver = status?.state === 'ended';
  setText(byId('empty-title'), isOver ? `${none} was recorded${whose}` : `${none} yet${whose}`);
  setText(byId('empty-text'), isOver ? '' : 'The graph appears with the first samples.');
}

// --- search ----------------------------------------------------------------------------------------

let searchTimer = 0;
search.addEventListener('input', () => {
  clearTimeout(searchTimer);
  byId('search-box').classList.toggle('has-text', search.value !== '');
  searchTimer = setTimeout(() => change({ search: search.value }), SEARCH_GAP_MS);
});
search.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') {
    clearTimeout(searchTimer);
    if (search.value === state.search) stepMatch(event.shiftKey ? -1 : 1);
    else change({ search: search.value });
  }
});

function clearSearch() {
  if (!search.value && !state.search) return false;
  clearTimeout(searchTimer);
  search.value = '';
  change({ search: '' });
  return true;
}

/** Goes to the next of the heaviest matches; zooms if it is too narrow or out of sight. */
function stepMatch(by) {
  const matches = view?.search?.top ?? [];
  if (!matches.length || state.tab !== 'graph') return;
  matchAt = (matchAt + by + matches.length + (matchAt < 0 && by < 0 ? 1 : 0)) % matches.length;
  const { path } = matches[matchAt];
  setText(byId('search-result'), `${formatCount(matchAt + 1)} of ${formatCount(view.search.count)}`);
  if (graph.reveal(path)) return;
  pendingReveal = path;
  change({ zoom: path.slice(0, -1) });
}

byId('search-clear').addEventListener('click', () => {
  clearSearch();
  search.focus();
});
byId('search-next').addEventListener('click', () => stepMatch(1));
byId('search-previous').addEventListener('click', () => stepMatch(-1));
byId('zoom-reset').addEventListener('click', () => change({ zoom: [] }));

// --- the process and the line to it ------------------------------------------------------------------

const STATE_TEXT = { attaching: 'Attaching', recording: 'Recording', paused: 'Paused', ended: 'Ended' };

function showStatus() {
  const shown = line === 'lost' ? 'lost' : line === 'closed' ? 'ended' : status.state;
  const pill = byId('state');
  pill.dataset.state = shown;
  setText(byId('state-text'), line === 'lost' ? 'Reconnecting' : STATE_TEXT[shown]);
  setText(byId('elapsed'), formatElapsed(status.duration_ns));
  setText(byId('samples'), formatPlural(status.samples, 'sample'));
  const rate = (status.counters.rate_mhz_now ?? 0) / 1000 || status.rate_hz;
  setText(byId('rate'), formatRate(rate));
  setText(byId('program'), programName(status.command));
  byId('program').title = status.command;
  setText(byId('pid'), `pid ${status.pid}`);
  document.title = `${programName(status.command)} (${status.pid}) · flametap`;
  const pause = byId('pause');
  const isPaused = status.state === 'paused';
  pause.hidden = !['recording', 'paused'].includes(status.state) || ['closed', 'complete'].includes(line);
  pause.setAttribute('aria-pressed', String(isPaused));
  setText(byId('pause-text'), isPaused ? 'Resume' : 'Pause');
  byId('pause-icon').replaceChildren(icon(isPaused ? 'play' : 'pause'));
  showBanner();
}

function showBanner() {
  let text = '';
  if (line === 'lost') text = 'The connection to flametap is lost. What is shown stays; trying again.';
  else if (line === 'closed') text = 'flametap has been stopped. What is shown stays; zooming works as far as it was loaded.';
  else if (status?.state === 'ended') text = `The recording has ended${status.reason ? `: ${status.reason}` : ''}.`;
  byId('banner').hidden = text === '';
  byId('banner').dataset.level = line === 'lost' ? 'bad' : 'plain';
  setText(byId('banner-text'), text);
}

let statusAt = -Infinity;
let statusTimer = 0;

/** Fetches what the events leave out: threads and symbols. */
async function fetchStatus() {
  statusAt = performance.now();
  try {
    const answer = await fetchJson('status');
    status = { ...answer.status };
    threads.update(answer.threads, state.threads, state.clock);
    quality.update(status, theme());
    showStatus();
  } catch {
    // The next event asks again.
  }
}

const connection = new Connection({
  onStatus(event) {
    const isOtherState = event.state !== status?.state;
    status = { ...event, symbols: status?.symbols ?? [] };
    newest = event.revision;
    showStatus();
    if (!view || newest > view.revision) {
      pacer.news();
      schedule();
    }
    clearTimeout(statusTimer);
    const wait = isOtherState ? 0 : Math.max(0, statusAt + STATUS_GAP_MS - performance.now());
    if (!document.hidden) statusTimer = setTimeout(fetchStatus, wait);
  },
  onState(next) {
    line = next;
    if (status) showStatus();
    if (next === 'complete') fetchStatus();
  },
});

document.addEventListener('visibilitychange', () => {
  if (document.hidden) return;
  if (view && newest > view.revision) pacer.news();
  schedule();
  if (line === 'live') fetchStatus();
});

async function togglePause() {
  if (byId('pause').hidden) return;
  const paused = status.state !== 'paused';
  try {
    await setPaused(paused);
    await fetchStatus();
  } catch (error) {
    say(`Could not ${paused ? 'pause' : 'resume'}: ${error.message}`);
  }
}
byId('pause').addEventListener('click', togglePause);

let toastTimer = 0;
function say(text) {
  const toast = byId('toast');
  setText(toast, text);
  toast.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (toast.hidden = true), 5000);
}

// --- theme -------------------------------------------------------------------------------------------

const prefersDark = matchMedia('(prefers-color-scheme: dark)');

function theme() {
  return document.documentElement.dataset.theme ?? (prefersDark.matches ? 'dark' : 'light');
}

function applyTheme() {
  const focusColor = getComputedStyle(document.documentElement).getPropertyValue('--focus').trim();
  graph.setTheme(new Palette(theme()), LABEL_FONT, focusColor);
  byId('theme-icon').replaceChildren(icon(theme() === 'dark' ? 'sun' : 'moon'));
  if (status) quality.update(status, theme());
  if (view) functions.update(view, { sort: state.sort, theme: theme() });
}

function toggleTheme() {
  const next = theme() === 'dark' ? 'light' : 'dark';
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem('flametap.theme', next);
  } catch {
    // No storage: the choice lasts as long as the page.
  }
  applyTheme();
}
byId('theme').addEventListener('click', toggleTheme);
prefersDark.addEventListener('change', applyTheme);

// --- keyboard ------------------------------------------------------------------------------------------

const help = byId('help');
byId('help-button').addEventListener('click', () => help.showModal());
help.addEventListener('click', (event) => {
  if (event.target === help) help.close(); // the backdrop
});
byId('help-close').addEventListener('click', () => help.close());

/** Undoes one thing at a time, from the front to the back. */
function escape() {
  if (threads.close(true)) return;
  if (quality.isOpen && innerWidth <= 900) return quality.toggle(false);
  if (graph.selectedPath) return graph.select(null);
  if (clearSearch()) return search.blur();
  if (document.activeElement === search) search.blur();
}

const KEYS = {
  '/': () => {
    search.focus();
    search.select();
  },
  Escape: escape,
  0: () => change({ zoom: [] }),
  Backspace: () => change({ zoom: state.zoom.slice(0, -1) }),
  i: () => change({ layout: state.layout === 'flame' ? 'icicle' : 'flame' }),
  n: () => stepMatch(1),
  N: () => stepMatch(-1),
  f: () => change({ tab: state.tab === 'graph' ? 'functions' : 'graph' }),
  t: () => threads.toggle(byId('threads-panel').hidden),
  p: togglePause,
  q: () => quality.toggle(),
  d: toggleTheme,
  '?': () => help.showModal(),
  1: () => change({ clock: CLOCKS[0] }),
  2: () => change({ clock: CLOCKS[1] }),
  3: () => change({ clock: CLOCKS[2] }),
};

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (isTyping(event) && event.key !== 'Escape' && event.target.type !== 'checkbox') return;
  const action = KEYS[event.key] ?? (event.shiftKey ? null : KEYS[event.key.toLowerCase()]);
  if (!action) return;
  event.preventDefault();
  action();
});

// --- start -----------------------------------------------------------------------------------------------

quality.onToggle = () => graph.layOut();
let width = 0;
new ResizeObserver(() => {
  // A wider graph has room for more boxes; ask once it has stopped changing.
  if (!view || graph.width === width || !graph.width) return;
  width = graph.width;
  clearTimeout(resizeTimer);
  resizeTimer = setTimeout(request, 120);
}).observe(byId('scroller'));
let resizeTimer = 0;

search.value = state.search;
graph.setFlame(state.layout === 'flame');
showChoices();
applyTheme();
request({ isNewPlace: true });
connection.open();

/** For the browser tests: where boxes are, without reading pixels. */
globalThis.flametap = {
  get state() {
    return { ...state, line, drawMs: graph.drawMs, pointed };
  },
  get view() {
    return view;
  },
  /** Middle of the first box with this name, in page coordinates. */
  locate(name) {
    const at = view.functions.name.indexOf(name);
    const box = view.boxes.function.indexOf(at);
    if (at < 0 || box < 0) return null;
    const span = graph.painter.span(graph.scene, box);
    const area = byId('scroller').getBoundingClientRect();
    const top = graph.rows.top(view.boxes.row[box]) - byId('scroller').scrollTop;
    if (!span) return null;
    return { x: area.left + (span[0] + span[1]) / 2, y: area.top + top + graph.rows.rowHeight / 2, width: span[1] - span[0] };
  },
};
