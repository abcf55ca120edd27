// The line to the server: events in, views and commands out.

const RETRY_MS = 2000; // where the browser does not reconnect by itself
const SILENCE_MS = 10_000; // five times what the server lets pass between two events

export class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * Fetches JSON below api/. Throws HttpError for an answer that is an error, whatever else for none,
 * and for one that breaks off.
 */
export async function fetchJson(path, options = {}) {
  const response = await fetch(`api/${path}`, options);
  if (response.ok) return await response.json();
  const body = await response.json().catch(() => ({}));
  throw new HttpError(response.status, body.error ?? response.statusText);
}

export function setPaused(paused) {
  return fetchJson('pause', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ paused }),
  });
}

/**
 * Listens to the server's events for as long as there can be any. A server that falls silent is
 * taken for lost: one that hangs, or a network that lets nothing through, breaks no connection.
 *
 * `onStatus(status)` for each; `onState(state)` when the line changes: "live", "lost" (tries again
 * by itself), "complete" (the profile can change no more), "closed" (the server said good-bye).
 */
export class Connection {
  constructor({ onStatus, onState }) {
    this.onStatus = onStatus;
    this.onState = onState;
    this.timer = 0;
  }

  open() {
    const events = new EventSource('api/events');
    /** Unless something is heard before that. */
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
