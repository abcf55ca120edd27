// Connects the parts of the page: state → requests → views → parts. All logic that needs no DOM is in
// model/.

import { Breadcrumb } from './graph/breadcrumb.js';
import { Details } from './graph/details.js';
import { Empty } from './graph/empty.js';
import { Graph } from './graph/graph.js';
import { Palette } from './model/color.js';
import { sampleNs } from './model/explain.js';
import { formatShare, programName } from './model/format.js';
import { setWeights } from './model/weight.js';
import {
  CLOCK_NAMES,
  ROWS_STEP,
  SHAPES,
  WEIGHTS,
  exactPattern,
  isStep,
  parseHash,
  rowsToAsk,
  toHash,
  weightQuery,
} from './model/state.js';
import { settled } from './model/settle.js';
import { learnFunctions, learnThreads } from './model/spelling.js';
import { cssColor, followTheme, rem, theme, timelineStyle } from './page/appearance.js';
import { announce, byId, choice } from './page/dom.js';
import { Beside, shownTabs } from './page/beside.js';
import { Files } from './page/files.js';
import { Freeze } from './page/freeze.js';
import { Header } from './page/header.js';
import { showHint } from './page/hint.js';
import { listenToKeys } from './page/keys.js';
import { Languages } from './page/languages.js';
import { Legend } from './page/legend.js';
import { SearchBox } from './page/searchbox.js';
import { printOnWhite } from './page/paper.js';
import { Save } from './page/save.js';
import { Settings } from './page/settings.js';
import { shortcuts } from './page/shortcuts.js';
import { NOT_SAVED, say } from './page/toast.js';
import { CodeOpener } from './panels/code_opener.js';
import { Code } from './panels/code.js';
import { Functions } from './panels/functions.js';
import { Locks } from './panels/locks.js';
import { Shaping } from './panels/shaping.js';
import { Quality } from './panels/quality.js';
import { Threads } from './panels/threads.js';
import { isReport, isSaved } from './server/connection.js';
import { Feed } from './server/feed.js';
import { Modules } from './server/modules.js';
import { Views } from './server/views.js';
import { Timeline } from './timeline/timeline.js';

const RESIZE_GAP_MS = 120;
const LABEL_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
// Parts of the state whose change needs a new view from the server.
const PLACE = [...WEIGHTS, ...SHAPES, 'zoom', 'run'];
const LIVE_ONLY = [...WEIGHTS.filter((name) => name !== 'clock'), ...SHAPES, 'sandwich'];
const ASKED = [...PLACE, 'search', 'tab', 'sort', 'beside'];

const { weights = '', clock: onlyClock = '' } = document.documentElement.dataset;
setWeights(weights, onlyClock);
let state = parseHash(location.hash || document.documentElement.dataset.view || ''); // a report has a view of its own
let rows = ROWS_STEP;
let readOut = ''; // the box that screen readers have been told of
let toReveal = null; // a path to select when its view arrives
let palette = null; // for the current theme
let unzoomed = null; // the last view of the whole tree, used when the server does not answer

// --- parts ---------------------------------------------------------------------------------------

const zoomTo = (zoom, run = '') => change({ zoom, run });
const code = new Code(() => state);
const details = new Details(byId('details'), {
  onZoom: zoomTo,
  onCode: (f, tab) => codes.open(f, tab),
  onMenu: (box) => shaping.boxMenu.openAt(shaping.pointed(), box),
});
const breadcrumb = new Breadcrumb({ zoom: zoomTo, code: () => codes.show() });
const graph = new Graph(
  {
    scroller: byId('scroller'),
    spacer: byId('spacer'),
    boxCanvas: byId('boxes'),
    markCanvas: byId('marks'),
  },
  { zoom: zoomTo, point, needRow },
);
const learn = (view) => learnFunctions(view.functions);
const shaping = new Shaping(() => state, graph, { change, point, learn, wholeNs: () => views.current?.total_ns ?? 0, isHeld: () => freeze.isFrozen });
const threads = new Threads((chosen) => change({ threads: chosen }), (by) => change({ by, zoom: [] }));
const languages = new Languages(change);
const legend = new Legend();
const functions = new Functions({
  sort: (sort) => change({ sort }),
  find: (name) => change({ search: exactPattern(name), tab: 'graph' }),
  code: (f) => codes.open(f),
  more: () => views.request(),
});
const empty = new Empty(change);
const search = new SearchBox({ search: (text) => change({ search: text }), visit, callers: (text) => shaping.showCallers(text) });
const quality = new Quality(() => {
  graph.layOut();
  modules.fetch();
});
const locks = new Locks(() => state, {
  toggled: () => graph.layOut(),
  find: (name) => change({ clock: 'off-cpu', search: exactPattern(name), tab: 'graph' }),
  code: (f) => {
    change({ clock: 'off-cpu' });
    locks.toggle(false); // graph, code and this panel do not fit side by side
    codes.open(f, 'source');
  },
});
const beside = new Beside(() => state, change);
const save = new Save(() => state, graph, { status: () => feed.status, say });
const settings = new Settings({ status: () => feed.status, changed: () => feed.ask(), say });
const freeze = new Freeze(() => state, { status: () => feed.status, change });
const files = new Files(() => state);
const codes = new CodeOpener(() => state, { code, graph, quality });
const modules = new Modules(() => state, {
  isWanted: () => quality.isOpen && feed.status !== null,
  show: (report, { clock }) => quality.showModules(report, CLOCK_NAMES[clock]),
});
const timeline = new Timeline(() => state, { change });
const header = new Header({ changed: () => feed.ask(), failed: say });
const views = new Views(
  () => state,
  () => ({ width: graph.width || innerWidth, rows, table: functions.wanted }),
  { show, failed: say, offline, isHeld: () => freeze.isFrozen },
);

const showClock = choice(byId('clock'), (clock) => change({ clock }));
const showTab = choice(byId('tabs'), (tab) => change({ tab }));
const showLayout = choice(byId('layout'), (layout) => change({ layout }));

function usePalette() {
  const { status } = feed;
  const program = status ? programName(status.command) : '';
  const hasPython = (status?.languages ?? []).length > 0;
  const key = [theme(), program, hasPython].join();
  if (palette?.key === key) return;
  palette = Object.assign(new Palette(theme(), program, hasPython), { key });
  const font = `${12 * rem()}px ${LABEL_FONT}`;
  graph.setTheme(palette, font, cssColor('--focus'));
  timeline.setStyle(timelineStyle());
  shaping.setTheme(palette, font, cssColor('--focus'));
  if (status) quality.update(status, palette);
  if (!views.current) return;
  functions.update(views.current, { sort: state.sort, palette });
  legend.update(views.current, palette);
}

// --- state → page ----------------------------------------------------------------------------------

function change(patch) {
  const isOther = (name) => name in patch && String(patch[name]) !== String(state[name]);
  if (isReport && LIVE_ONLY.some((name) => isOther(name) && !isSaved(name, patch[name]))) return say(NOT_SAVED);
  const before = state;
  // A run of narrow boxes is a part of the zoom: another zoom leaves it. What changed is seen by totals first: a slower
  // function of Python spends its time in many of C, each of which changes less than chance does.
  const begins = 'compare' in patch && (patch.compare === '') !== (state.compare === '');
  const sort = patch.compare === '' ? 'self' : 'total';
  state = { ...state, ...('zoom' in patch ? { run: '' } : {}), ...(begins ? { sort } : {}), ...patch };
  const hash = toHash(state);
  if (hash !== toHash(before)) {
    history[isStep(before, state) ? 'pushState' : 'replaceState'](null, '', hash || location.pathname);
  }
  apply(before);
}

function apply(before) {
  const isOther = (key) => String(before[key]) !== String(state[key]);
  showChoices();
  if (isOther('layout')) graph.setFlame(state.layout === 'flame');
  if (isOther('search')) search.set(state.search);
  if (isOther('zoom') || isOther('run')) {
    graph.zoomTo(state.zoom, state.run);
    breadcrumb.update(state.zoom, null);
  }
  if (isOther('tab') || isOther('beside')) {
    graph.layOut();
    graph.pointAtSelected();
  }
  if (['range', 'compare', 'threads', 'heat', 'by'].some(isOther)) timeline.update();
  shaping.update(isOther);
  if (!ASKED.some(isOther)) return;
  showThreads();
  if (WEIGHTS.some(isOther)) {
    code.news({ isOther: true });
    modules.fetch();
    locks.news({ isOther: true });
  }
  views.request({ isNewPlace: PLACE.some(isOther) });
}

/** Shows the chosen threads; those that a URL has by name are known when the first view is there. */
function showThreads(count = threads.count, status = undefined) {
  threads.update(count, state.threads.filter(Number.isInteger), state, status);
}

function showChoices() {
  showClock(state.clock);
  showTab(state.tab);
  showLayout(state.layout);
  freeze.update();
  languages.update(state);
  beside.update(state);
  byId('graph').hidden = !shownTabs(state).includes('graph');
  byId('layout').hidden = byId('graph').hidden || state.sandwich !== '';
}

addEventListener('popstate', () => {
  const before = state;
  state = parseHash(location.hash);
  apply(before);
});

// --- views → page ------------------------------------------------------------------------------------

function show(view, isNewPlace) {
  learn(view);
  learnThreads(view.threads?.chosen ?? []);
  const { patch, said } = settled(state, view);
  if (patch) {
    state = { ...state, ...patch };
    showThreads();
    timeline.update();
  }
  // Names that became known make the URL longer, and parts that do not exist make it shorter.
  const hash = toHash(state);
  if (hash !== location.hash) history.replaceState(null, '', hash || location.pathname);
  if (said) say(said);
  shaping.show(view);
  if (!view.zoom.path.length && !view.zoom.run) unzoomed = view;
  codes.follow(view);
  graph.setView(view, isNewPlace);
  if (toReveal) graph.reveal(toReveal);
  toReveal = null;
  functions.update(view, { sort: state.sort, palette });
  legend.update(view, palette);
  quality.setView(view);
  breadcrumb.update(state.zoom, view);
  search.update(view);
  empty.show(view, state, feed.status);
  document.documentElement.dataset.revision = view.revision;
}

/** Without an answer from the server: zooms in or out within the loaded views; keeps clock and threads. */
function offline({ isLive }) {
  const view = views.current;
  if (!view) return;
  if (weightQuery(view.asked) !== weightQuery(state)) {
    say('flametap does not answer. The graph stays as it is.');
    const before = state;
    state = { ...state };
    for (const key of WEIGHTS) state[key] = view.asked[key];
    history.replaceState(null, '', toHash(state) || location.pathname);
    apply(before);
    return;
  }
  const isOther = (key) => state[key] !== view.asked[key];
  const isTable = state.tab === 'functions';
  const isUnanswered = isOther('search') || (isTable && (isOther('tab') || isOther('sort')));
  if (isUnanswered && !isLive) say('flametap does not answer.');
  const isInView = view.find(state.zoom) !== null;
  const isDeeper = view.zoom.path.length <= state.zoom.length;
  if (!unzoomed || weightQuery(unzoomed.asked) !== weightQuery(state) || (isInView && isDeeper)) return;
  graph.setView(unzoomed, false);
  graph.zoomTo(state.zoom);
}

// --- graph → page ------------------------------------------------------------------------------------

function point(info, from = graph) {
  const { view } = from;
  const isShown = !byId('graph').hidden;
  details.show(view, isShown ? info : null, { clock: view?.asked.clock, palette, sample: sampleNs(feed.status, view?.asked.clock) });
  if (!info) readOut = '';
  if (!info?.isDocked || info.path === readOut) return;
  readOut = info.path;
  const hidden = view.boxes.hidden[info.box];
  const name = view.functionOf(info.box)?.name ?? (hidden ? `${hidden} narrow functions` : 'all');
  const share = formatShare(view.boxes.total_ns[info.box], view.total_ns);
  announce(`${name}, ${share} of all`);
}

function needRow(row) {
  if (!views.current) return;
  const wanted = rowsToAsk(row, views.current.last_row, views.current.deepest_row);
  if (wanted <= rows) return;
  rows = wanted;
  views.request();
}

/** Selects a match; zooms to its caller if it is too narrow or not in the view. */
function visit(path) {
  if (state.tab !== 'graph') change({ tab: 'graph' });
  graph.forgetPointer();
  if (graph.reveal(path)) return;
  toReveal = path;
  change({ zoom: path.slice(0, -1) });
}

let width = 0;
let resizeTimer = 0;
new ResizeObserver(() => {
  if (!graph.width || graph.width === width) return;
  // A wider graph has room for more boxes; request them when the width has settled.
  if (width) {
    clearTimeout(resizeTimer);
    resizeTimer = setTimeout(() => views.request(), RESIZE_GAP_MS);
  }
  width = graph.width;
}).observe(byId('scroller'));

// --- connection to the server ------------------------------------------------------------------------

const feed = new Feed({
  status(status) {
    header.update(status);
    freeze.update();
    if (views.current) empty.show(views.current, state, feed.status);
    views.news(status.revision);
    timeline.news(status);
    locks.news();
    shaping.news(status.revision);
  },
  whole(status, threadCount) {
    showThreads(threadCount, status);
    header.update(status);
    if (views.current) empty.show(views.current, state, feed.status);
    languages.setPython(status, state);
    shaping.setPython(status.languages.length > 0);
    usePalette();
    quality.update(status, palette);
    modules.fetch({ isLive: true });
  },
  line(line) {
    header.setLine(line);
    views.setLine(line);
    shaping.setLine(line);
    if (line !== 'live') return;
    modules.fetch();
    code.news({ isOther: true });
  },
});

document.addEventListener('visibilitychange', () => {
  if (document.hidden) return;
  views.schedule();
  feed.ask();
});

// --- keyboard ------------------------------------------------------------------------------------------

const parts = { beside, code, codes, files, freeze, graph, header, languages, locks, quality, save, search, settings, shaping, threads };
const KEYS = shortcuts(() => state, change, parts);

listenToKeys(KEYS, (key) => {
  // The card would cover what the keys change. Some keys act on the hovered box.
  const isOfBox = 'as'.includes(key.toLowerCase()) || key.toLowerCase() in shaping.keys;
  if (!isOfBox && key !== 'Shift') for (const each of [graph, ...shaping.sandwich.graphs]) each.forgetPointer();
});

// --- start -----------------------------------------------------------------------------------------------

search.set(state.search);
graph.setFlame(state.layout === 'flame');
showChoices();
showHint(() => graph.layOut());
followTheme(usePalette);
printOnWhite(graph);
breadcrumb.update(state.zoom, null);
shaping.update(() => true);
views.request({ isNewPlace: true });
timeline.update();
feed.open();

// For the browser's console and for tests, which cannot read the canvas.
const keys = Object.keys(KEYS);
globalThis.flametap = { graph, views, feed, header, code, timeline, shaping, change, keys, getState: () => state };
