// The connection to the server: JSON requests and the stream of events.

import { Stream } from './stream.js';

const WORKER_SILENCE_MS = 15_000; // then the worker is gone: it says "lost" after ten seconds

/** False: a saved report has report/connection.js in the place of this module. */
export const isReport = false;

/** Whether a report has what a part of the state asks for; the server has everything. */
export const isSaved = () => true;

/** What a saved report says of its time. */
export const savedRange = '';
export const hasTimeline = true;

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
 * The server's events, as Stream (stream.js) has them: from the stream that all pages of one browser share,
 * or, where there are no shared workers, from one of this page, which is closed while the page is hidden.
 */
export class Connection {
  constructor(on) {
    this.on = on;
    this.isOver = false;
    this.timer = 0;
  }

  open() {
    try {
      this.share();
    } catch {
      this.openOwn();
    }
  }

  share() {
    const worker = new SharedWorker(new URL('static/server/stream_worker.js', document.baseURI), { type: 'module' });
    worker.onerror = () => this.leave(worker);
    worker.port.onmessage = ({ data }) => {
      if (this.worker !== worker) return;
      this.expectNews();
      this.take(data);
    };
    this.worker = worker;
    worker.port.postMessage('join');
    addEventListener('pagehide', () => this.worker?.port.postMessage('leave'));
    addEventListener('pageshow', ({ persisted }) => persisted && this.worker?.port.postMessage('join'));
    this.expectNews();
  }

  take({ status, line }) {
    if (status) this.on.onStatus(status);
    if (!line) return;
    this.isOver = ['complete', 'closed'].includes(line);
    if (this.isOver) clearTimeout(this.timer);
    this.on.onState(line);
  }

  expectNews() {
    clearTimeout(this.timer);
    if (!this.isOver) this.timer = setTimeout(() => this.leave(this.worker), WORKER_SILENCE_MS);
  }

  /** Goes on without the worker, which failed. */
  leave(worker) {
    if (this.worker !== worker) return;
    worker.port.postMessage('leave');
    this.worker = null;
    clearTimeout(this.timer);
    this.openOwn();
  }

  openOwn() {
    const stream = new Stream('api/events', {
      onStatus: (status) => this.take({ status }),
      onState: (line) => this.take({ line }),
    });
    const follow = () => {
      if (this.isOver) return;
      if (document.hidden) stream.close();
      else if (!stream.events) stream.open();
    };
    document.addEventListener('visibilitychange', follow);
    follow();
  }
}
