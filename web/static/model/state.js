// The state of the page that is kept in the URL, and the times of requests. No DOM.

import { askThreads, parsePath, parseThreads, pathIds, spellPath, spellThreads } from './spelling.js';
import { addStep, parseSteps } from './shape.js';

export const CLOCKS = ['cpu', 'wall', 'off-cpu'];
export const CLOCK_NAMES = { cpu: 'CPU', wall: 'Wall', 'off-cpu': 'Off-CPU' };

export const LANGUAGES = ['all', 'python', 'native'];

/** Rows of the first request, and further rows when scrolling gets near the last one. */
export const ROWS_STEP = 300;

const RUN = /^\d{1,10}-\d{1,10}$/;
const RANGE = /^(?:last\d{1,12}|\d{1,12}-\d{1,12})$/;
// The range to compare with: the rest of the recording, another recording (model/files.js), or as RANGE.
const COMPARE = /^(?:rest|file\d{0,9}|last\d{1,12}|\d{1,12}-\d{1,12})$/;

function oneOf(...values) {
  return { initial: values[0], parse: (text) => (values.includes(text) ? text : values[0]), format: String };
}

/** A list whose URL has names. `ask` formats it for requests, where ids are shorter. */
function list(parse, format, ask = format) {
  return { initial: [], parse, format, ask };
}

function flag() {
  return { initial: false, parse: (text) => text === '1', format: (value) => (value ? '1' : '') };
}

function text() {
  return { initial: '', parse: String, format: String };
}

function matching(pattern) {
  return { initial: '', parse: (text) => (pattern.test(text) ? text : ''), format: String };
}

/**
 * The parts of the state, and how each is written in the URL. `counts` are those that decide what is counted: they go
 * into every request. `shapes` are those that decide how the tree is shown: they go into requests for trees. `isStep`
 * are those whose change the browser's Back undoes. Another filter is another line here.
 */
const FIELDS = {
  clock: { ...oneOf(...CLOCKS), counts: true, isStep: true },
  layout: oneOf('flame', 'icicle'),
  tab: { ...oneOf('graph', 'tree', 'functions'), isStep: true },
  sort: oneOf('self', 'total'), // order of the functions
  beside: flag(), // graph and table side by side
  language: { ...oneOf(...LANGUAGES), counts: true, isStep: true }, // the functions to show
  threads: { ...list(parseThreads, spellThreads, askThreads), counts: true, isStep: true }, // ids or NAME@TID; none: all
  zoom: { ...list(parsePath, spellPath, pathIds), isStep: true }, // ids or NAME@MODULE of functions, root first
  run: { ...matching(RUN), isStep: true }, // FIRST-LAST, ids: only these children of the zoomed box fill the width
  shape: { ...list(parseSteps, (steps) => steps.join(';')), shapes: true, isStep: true }, // model/shape.js
  sandwich: { ...text(), isStep: true }, // a target of shape.js: its callers and callees are shown
  compare: { ...matching(COMPARE), shapes: true, isStep: true }, // another range, or all the rest
  scale: { ...oneOf('share', 'time'), shapes: true }, // by which a comparison goes
  widthOf: { ...oneOf('here', 'both'), key: 'width_of', shapes: true }, // the width of its boxes
  by: { ...oneOf('', 'program', 'process', 'thread'), counts: true, isStep: true }, // what stacks begin with
  plumbing: { ...flag(), counts: true, isStep: true }, // show the interpreter's own functions, too
  gil: { ...flag(), counts: true, isStep: true }, // count only the time in which a thread holds the GIL
  range: { ...matching(RANGE), counts: true, isStep: true }, // START-END since the start, or lastN: milliseconds
  heat: oneOf('', 'cpu', 'waits'), // the heat map below the timeline
  search: { ...text(), key: 'q' },
};

const ENTRIES = Object.entries(FIELDS);

export const DEFAULTS = Object.freeze(Object.fromEntries(ENTRIES.map(([name, { initial }]) => [name, initial])));

/** Parts of the state that decide what is counted. */
export const WEIGHTS = ENTRIES.filter(([, field]) => field.counts).map(([name]) => name);

/** Parts of the state that decide how the tree is shown. */
export const SHAPES = ENTRIES.filter(([, field]) => field.shapes).map(([name]) => name);

const STEPS = ENTRIES.filter(([, field]) => field.isStep).map(([name]) => name);

/** Parses a location hash into a state; invalid parts get the default. */
export function parseHash(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const state = {};
  for (const [name, { key = name, initial, parse }] of ENTRIES) {
    state[name] = given.get(key) ? parse(given.get(key)) : initial;
  }
  return state;
}

/** Adds those parts of the state to `query` that are not as at the start; "ask" writes them for a request. */
function write(query, state, names, way = 'ask') {
  for (const name of names) {
    const { key = name, initial, format, [way]: as = format } = FIELDS[name];
    if (format(state[name]) !== format(initial)) query.set(key, as(state[name]));
  }
}

// What the fragment of a URL may have as it is.
const READABLE = { '%2C': ',', '%40': '@', '%3A': ':', '%3B': ';', '%28': '(', '%29': ')', '%2F': '/', '%3D': '=' };

/** Returns the hash for a state; "" for the default state. */
export function toHash(state) {
  const parts = new URLSearchParams();
  write(parts, state, Object.keys(FIELDS), 'format');
  const text = parts.toString().replace(/%[0-9A-F]{2}/g, (code) => READABLE[code] ?? code);
  return text ? `#${text}` : '';
}

/** Returns the query string of a view request. */
export function viewQuery(state, { width, rows, revision, table, have }) {
  const query = weights(state);
  for (const [key, value] of Object.entries({ width: Math.round(width), rows, revision })) query.set(key, value);
  write(query, state, [...SHAPES, 'zoom', 'run', 'search']);
  if (state.tab === 'functions' || state.beside) {
    query.set('table', state.sort);
    for (const [key, value] of Object.entries(table ?? {})) query.set(`table_${key}`, value);
  }
  if (have !== undefined) query.set('have', have);
  return query.toString();
}

function weights(state) {
  const query = new URLSearchParams({ clock: state.clock });
  write(query, state, WEIGHTS);
  return query;
}

/** Returns the query string that says what is counted: clock, threads, language, GIL. */
export function weightQuery(state) {
  return weights(state).toString();
}

/** Returns what a request for a file says: what is counted, and with `isShown` only as it is shown. */
export function exportQuery(state, isShown) {
  if (!isShown) return weightQuery({ ...DEFAULTS, clock: state.clock });
  const query = weights(state);
  // A sandwich shows the stacks through its functions, cut in two.
  const shape = state.sandwich ? addStep(state.shape, `only:${state.sandwich}`) : state.shape;
  write(query, { ...state, shape }, ['shape']);
  return query.toString();
}

/** Returns the query string of a request for rows of the tree table. */
export function treeQuery(state, revision) {
  const query = weights(state);
  write(query, state, SHAPES);
  query.set('revision', revision);
  return query.toString();
}

/** Returns the query string of a request for a function's lines or instructions. */
export function codeQuery(state, id) {
  return `function=${id}&${weightQuery(state)}`;
}

/** Returns true if the browser's Back should undo the change from one state to the other. */
export function isStep(before, after) {
  return STEPS.some((name) => String(before[name]) !== String(after[name]));
}

/** Returns the search for exactly this function name. */
export function exactPattern(name) {
  return `re:^${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`;
}

/** Returns how many rows to request when `row` is the deepest visible one. */
export function rowsToAsk(row, lastRow, deepestRow) {
  if (deepestRow <= lastRow || row + ROWS_STEP / 3 < lastRow) return lastRow;
  return row + ROWS_STEP;
}

const MAX_DOUBLINGS = 5;

/**
 * Decides when to request a newer view: soon, but at most `1000 / gapMs` times a second, one request
 * at a time, and during at most a third of the time, to leave a slow server or machine idle in
 * between. Times are milliseconds of any one clock.
 */
export class Pacer {
  constructor(gapMs = 400, retryMs = 2000) {
    this.gapMs = gapMs;
    this.retryMs = retryMs;
    this.hasNews = false;
    this.startedAt = null; // of the running request
    this.failures = 0; // in a row
    this.nextAt = -Infinity;
  }

  news() {
    this.hasNews = true;
  }

  /** Returns how long to wait until the next request may start; null if there is none to make. */
  delay(now) {
    if (!this.hasNews || this.startedAt !== null) return null;
    return Math.max(0, this.nextAt - now);
  }

  started(now) {
    this.startedAt = now;
    this.hasNews = false;
  }

  finished(now) {
    const tookMs = now - this.startedAt;
    this.nextAt = this.startedAt + Math.max(this.gapMs, 3 * tookMs);
    this.startedAt = null;
    this.failures = 0;
  }

  /** Notes a request without an answer: it is repeated, after a delay that doubles each time. */
  failed(now) {
    this.hasNews = true;
    this.nextAt = now + this.retryMs * 2 ** Math.min(this.failures++, MAX_DOUBLINGS);
    this.startedAt = null;
  }
}
