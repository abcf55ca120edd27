// The line to the server: events in, views and commands out.

const RETRY_MS = 2000; // where the browser does not reconnect by itself

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
 * Listens to the server's events for as long as there can be any.
 *
 * `onStatus(status)` for each; `onState(state)` when the line changes: "live", "lost" (tries again
 * by itself), "complete" (the profile can change no more), "closed" (the server said good-bye).
 */
export class Connection {
  constructor({ onStatus, onState }) {
    this.onStatus = onStatus;
    this.onState = onState;
  }

  open() {
    const events = new EventSource('api/events');
    events.onopen = () => this.onState('live');
    events.onerror = () => {
      this.onState('lost');
      if (events.readyState === EventSource.CLOSED) setTimeout(() => this.open(), RETRY_MS);
    };
    events.addEventListener('status', (event) => this.onStatus(JSON.parse(event.data)));
    for (const [name, state] of [['end', 'complete'], ['bye', 'closed']]) {
      events.addEventListener(name, () => {
        events.close();
        this.onState(state);
      });
    }
    this.events = events;
  }
}
