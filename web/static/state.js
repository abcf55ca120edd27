// What the page shows, as far as it belongs in the URL, and when to ask for more. No DOM.

export const CLOCKS = ['cpu', 'wall', 'off-cpu'];
export const CLOCK_NAMES = { cpu: 'CPU', wall: 'Wall', 'off-cpu': 'Off-CPU' };

/** Rows asked for at first, and by how many more when scrolling gets near the last one. */
export const ROWS_STEP = 300;

export const DEFAULTS = Object.freeze({
  clock: 'cpu',
  threads: [], // thread ids, ascending; none means all
  zoom: [], // function ids, root first
  layout: 'flame', // or "icicle"
  tab: 'graph', // or "functions"
  sort: 'self', // or "total": order of the functions
  search: '',
});

const ONE_OF = {
  clock: CLOCKS,
  layout: ['flame', 'icicle'],
  tab: ['graph', 'functions'],
  sort: ['self', 'total'],
};

function parseIds(text, separator) {
  const ids = text.split(separator).map(Number);
  return ids.every((id) => Number.isInteger(id) && id >= 0) ? ids : [];
}

/** The state that a location hash stands for; whatever makes no sense falls back to the default. */
export function parseHash(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const state = { ...DEFAULTS };
  for (const [key, values] of Object.entries(ONE_OF)) {
    if (values.includes(given.get(key))) state[key] = given.get(key);
  }
  if (given.get('threads')) state.threads = parseIds(given.get('threads'), ',').sort((a, b) => a - b);
  if (given.get('zoom')) state.zoom = parseIds(given.get('zoom'), '.');
  state.search = given.get('q') ?? '';
  return state;
}

/** The hash for a state, "" when all is as at the start. */
export function toHash(state) {
  const parts = new URLSearchParams();
  for (const key of Object.keys(ONE_OF)) {
    if (state[key] !== DEFAULTS[key]) parts.set(key, state[key]);
  }
  if (state.threads.length) parts.set('threads', state.threads.join(','));
  if (state.zoom.length) parts.set('zoom', state.zoom.join('.'));
  if (state.search) parts.set('q', state.search);
  const text = parts.toString().replaceAll('%2C', ',');
  return text ? `#${text}` : '';
}

/** The query string of a view request. */
export function viewQuery(state, { width, rows, revision }) {
  const query = new URLSearchParams({ clock: state.clock, width: Math.round(width), rows, revision });
  if (state.threads.length) query.set('threads', state.threads.join(','));
  if (state.zoom.length) query.set('zoom', state.zoom.join('.'));
  if (state.search) query.set('q', state.search);
  if (state.tab === 'functions') query.set('table', state.sort);
  return query.toString();
}

/** The query string that says what is weighed: clock and threads. */
export function weightQuery(state) {
  const query = new URLSearchParams({ clock: state.clock });
  if (state.threads.length) query.set('threads', state.threads.join(','));
  return query.toString();
}

/** The query string of a request for a function's lines or instructions. */
export function codeQuery(state, id) {
  return `function=${id}&${weightQuery(state)}`;
}

/** True when going from one state to the other is a step that Back should undo. */
export function isStep(before, after) {
  return ['clock', 'tab', 'threads', 'zoom'].some(
    (key) => String(before[key]) !== String(after[key]),
  );
}

/** The search that finds exactly this function name. */
export function exactPattern(name) {
  return `re:^${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`;
}

/** How many rows to ask for when `row` is the deepest one in sight. */
export function rowsToAsk(row, lastRow, deepestRow) {
  if (deepestRow <= lastRow || row + ROWS_STEP / 3 < lastRow) return lastRow;
  return row + ROWS_STEP;
}

const MAX_DOUBLINGS = 5;

/**
 * Decides when news are fetched: soon, but at most `1000 / gapMs` times a second, one request at a
 * time, and never for more than a third of the time, so that a slow server or a slow machine is not
 * kept busy by us. Times are milliseconds of any one clock.
 */
export class Pacer {
  constructor(gapMs = 250, retryMs = 2000) {
    this.gapMs = gapMs;
    this.retryMs = retryMs;
    this.hasNews = false;
    this.startedAt = null; // of the request under way
    this.failures = 0; // in a row
    this.nextAt = -Infinity;
  }

  news() {
    this.hasNews = true;
  }

  /** How long to wait until the next request may start; null if there is nothing to ask now. */
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

  /** There was no answer: what was asked for is still news, but not at once, and ever later. */
  failed(now) {
    this.hasNews = true;
    this.nextAt = now + this.retryMs * 2 ** Math.min(this.failures++, MAX_DOUBLINGS);
    this.startedAt = null;
  }
}
