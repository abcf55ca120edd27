// The state of the page that is kept in the URL, and the times of requests. No DOM.

export const CLOCKS = ['cpu', 'wall', 'off-cpu'];
export const CLOCK_NAMES = { cpu: 'CPU', wall: 'Wall', 'off-cpu': 'Off-CPU' };

export const LANGUAGES = ['all', 'python', 'native'];

/** Rows of the first request, and further rows when scrolling gets near the last one. */
export const ROWS_STEP = 300;

export const DEFAULTS = Object.freeze({
  clock: 'cpu',
  threads: [], // thread ids, ascending; none means all
  zoom: [], // function ids, root first
  layout: 'flame', // or "icicle"
  tab: 'graph', // or "functions"
  sort: 'self', // or "total": order of the functions
  language: 'all', // or "python", "native": the functions to show
  plumbing: false, // show the interpreter's own functions, too
  gil: false, // count only the time in which a thread holds the GIL
  range: '', // only this time: "START-END" since the start, or "lastN", in milliseconds
  search: '',
});

const ONE_OF = {
  clock: CLOCKS,
  layout: ['flame', 'icicle'],
  tab: ['graph', 'functions'],
  sort: ['self', 'total'],
  language: LANGUAGES,
};

const SWITCHES = ['plumbing', 'gil'];

const RANGE = /^(?:last\d{1,12}|\d{1,12}-\d{1,12})$/;

function parseIds(text, separator) {
  const ids = text.split(separator).map(Number);
  return ids.every((id) => Number.isInteger(id) && id >= 0) ? ids : [];
}

/** Parses a location hash into a state; invalid parts get the default. */
export function parseHash(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const state = { ...DEFAULTS };
  for (const [key, values] of Object.entries(ONE_OF)) {
    if (values.includes(given.get(key))) state[key] = given.get(key);
  }
  if (given.get('threads')) state.threads = parseIds(given.get('threads'), ',').sort((a, b) => a - b);
  if (given.get('zoom')) state.zoom = parseIds(given.get('zoom'), '.');
  for (const key of SWITCHES) state[key] = given.get(key) === '1';
  if (RANGE.test(given.get('range') ?? '')) state.range = given.get('range');
  state.search = given.get('q') ?? '';
  return state;
}

/** Returns the hash for a state; "" for the default state. */
export function toHash(state) {
  const parts = new URLSearchParams();
  for (const key of Object.keys(ONE_OF)) {
    if (state[key] !== DEFAULTS[key]) parts.set(key, state[key]);
  }
  if (state.threads.length) parts.set('threads', state.threads.join(','));
  if (state.zoom.length) parts.set('zoom', state.zoom.join('.'));
  for (const key of SWITCHES) if (state[key]) parts.set(key, '1');
  if (state.range) parts.set('range', state.range);
  if (state.search) parts.set('q', state.search);
  const text = parts.toString().replaceAll('%2C', ',');
  return text ? `#${text}` : '';
}

/** Returns the query string of a view request. */
export function viewQuery(state, { width, rows, revision }) {
  const query = weights(state);
  for (const [key, value] of Object.entries({ width: Math.round(width), rows, revision })) query.set(key, value);
  if (state.zoom.length) query.set('zoom', state.zoom.join('.'));
  if (state.search) query.set('q', state.search);
  if (state.tab === 'functions') query.set('table', state.sort);
  return query.toString();
}

/** Parts of the state that decide what is counted; weightQuery has no others. */
export const WEIGHTS = ['clock', 'threads', 'language', 'plumbing', 'gil', 'range'];

function weights(state) {
  const query = new URLSearchParams({ clock: state.clock });
  if (state.threads.length) query.set('threads', state.threads.join(','));
  if (state.language !== DEFAULTS.language) query.set('language', state.language);
  for (const key of SWITCHES) if (state[key]) query.set(key, '1');
  if (state.range) query.set('range', state.range);
  return query;
}

/** Returns the query string that says what is counted: clock, threads, language, GIL. */
export function weightQuery(state) {
  return weights(state).toString();
}

/** Returns the query string of a request for a function's lines or instructions. */
export function codeQuery(state, id) {
  return `function=${id}&${weightQuery(state)}`;
}

/** Returns true if the browser's Back should undo the change from one state to the other. */
export function isStep(before, after) {
  return [...WEIGHTS, 'tab', 'zoom'].some(
    (key) => String(before[key]) !== String(after[key]),
  );
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
  constructor(gapMs = 250, retryMs = 2000) {
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
