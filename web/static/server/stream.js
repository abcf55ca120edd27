// The stream of the server's events, opened again when it breaks. Runs in a page or in a worker.

const RETRY_MS = 2000; // where the browser does not reconnect by itself
const SILENCE_MS = 10_000; // five times the longest time between two events (HEARTBEAT_S in api.py)

/**
 * Listens to the server's events until the last one. Without an event for SILENCE_MS, the connection
 * counts as lost: a server that hangs, or a network that drops packets, does not close it.
 *
 * Calls `onStatus(status)` for each status, and `onState(state)` when the connection changes: "live",
 * "lost" (it reconnects by itself), "complete" (the profile will not change any more), "closed" (the
 * server has closed).
 */
export class Stream {
  constructor(url, { onStatus, onState }) {
    Object.assign(this, { url, onStatus, onState });
    this.timer = 0;
    this.events = null;
  }

  /** Ends without a word; open() begins again. */
  close() {
    clearTimeout(this.timer);
    this.events?.close();
    this.events = null;
  }

  open() {
    this.close();
    const events = new EventSource(this.url);
    this.events = events;
    /** Reconnects after `ms`, unless an event arrives before. */
    const openAgainIn = (ms) => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
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
        this.close();
        this.onState(state);
      });
    }
  }
}
