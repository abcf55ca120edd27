// The connection to the server: JSON requests and the stream of events.

const RETRY_MS = 2000; // where the browser does not reconnect by itself
const SILENCE_MS = 10_000; // five times the longest time between two events (HEARTBEAT_S in api.py)

/** False: a saved report has report/connection.js in the place of this module. */
export const isReport = false;

export class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * Fetches JSON below api/. Throws HttpError if the server answers with an error, and another error
 * if there is no answer or an incomplete one.
 */
export async function fetchJson(path, options = {}) {
  const response = await fetch(`api/${path}`, options);
  if (response.ok) return await response.json();
  const body = await response.json().catch(() => ({}));
  throw new HttpError(response.status, body.error ?? response.statusText);
}

/** Fetches a file below api/: {blob, name}. Throws as fetchJson does. */
export async function fetchFile(path) {
  const response = await fetch(`api/${path}`);
  if (!response.ok) {
    const body = await response.json().catch(() => ({}));
    throw new HttpError(response.status, body.error ?? response.statusText);
  }
  const said = response.headers.get('Content-Disposition') ?? '';
  return { blob: await response.blob(), name: /filename="([^"]+)"/.exec(said)?.[1] ?? 'flametap' };
}

export function postJson(path, body) {
  return fetchJson(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
}

export function setPaused(paused) {
  return postJson('pause', { paused });
}

/**
 * Listens to the server's events until the last one. Without an event for SILENCE_MS, the connection
 * counts as lost: a server that hangs, or a network that drops packets, does not close it.
 *
 * Calls `onStatus(status)` for each status, and `onState(state)` when the connection changes: "live",
 * "lost" (it reconnects by itself), "complete" (the profile will not change any more), "closed" (the
 * server has closed).
 */
export class Connection {
  constructor({ onStatus, onState }) {
    this.onStatus = onStatus;
    this.onState = onState;
    this.timer = 0;
  }

  open() {
    const events = new EventSource('api/events');
    /** Reconnects after `ms`, unless an event arrives before. */
    const openAgainIn = (ms) => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        events.close();
        this.onState('lost');
        this.open();
      }, ms);
    };
    openAgainIn(SILENCE_MS);
    events.onopen = () => {
      openAgainIn(SILENCE_MS);
      this.onState('live');
    };
    events.onerror = () => {
      this.onState('lost');
      if (events.readyState === EventSource.CLOSED) openAgainIn(RETRY_MS);
    };
    events.addEventListener('status', (event) => {
      openAgainIn(SILENCE_MS);
      this.onStatus(JSON.parse(event.data));
    });
    for (const [name, state] of [['end', 'complete'], ['bye', 'closed']]) {
      events.addEventListener(name, () => {
        clearTimeout(this.timer);
        events.close();
        this.onState(state);
      });
    }
  }
}
