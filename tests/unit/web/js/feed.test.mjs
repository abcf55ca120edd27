import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

import { Feed } from '../../../../web/static/server/feed.js';

globalThis.document = { hidden: false, addEventListener() {} };
globalThis.addEventListener ??= () => {};

let streams; // the pages' streams, as EventSource
globalThis.EventSource = class {
  constructor(url) {
    Object.assign(this, { url, listeners: {}, readyState: 1 });
    streams.push(this);
  }

  addEventListener(name, listener) {
    this.listeners[name] = listener;
  }

  say(name, data = {}) {
    this.listeners[name]({ data: JSON.stringify(data) });
  }

  close() {
    this.isClosed = true;
  }
};

let asked;
globalThis.fetch = () =>
  new Promise((resolve, reject) => {
    asked.push({ answer: (value) => resolve({ ok: true, json: async () => value }), fail: () => reject(new TypeError()) });
  });

/** Waits until a condition holds. */
async function until(holds) {
  for (let tries = 0; !holds(); tries++) {
    assert.ok(tries < 2000, String(holds));
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function make() {
  const calls = { status: [], whole: [], line: [] };
  const feed = new Feed({
    status: (status) => calls.status.push(status),
    whole: (status, count) => calls.whole.push([status, count]),
    line: (line) => calls.line.push(line),
  });
  feed.open();
  return { feed, calls, stream: streams[0] };
}

function done({ feed, stream }) {
  clearTimeout(feed.timer);
  stream.say('end');
  clearTimeout(feed.timer);
}

beforeEach(() => {
  streams = [];
  asked = [];
});

test('an event goes on with the symbols of the last answer', async () => {
  const made = make();
  const { calls, stream } = made;
  asked[0].answer({ status: { state: 'recording', revision: 1, symbols: ['a'] }, thread_count: 3 });
  await until(() => calls.whole.length > 0);
  assert.deepEqual(calls.whole, [[{ state: 'recording', revision: 1, symbols: ['a'] }, 3]]);
  stream.say('status', { state: 'recording', revision: 2 });
  assert.deepEqual(calls.status, [{ state: 'recording', revision: 2, symbols: ['a'] }]);
  done(made);
});

test('an answer that is older than the last event changes only what events lack', async () => {
  const made = make();
  const { calls, stream } = made;
  stream.say('status', { state: 'ended', revision: 5 });
  asked[0].answer({ status: { state: 'recording', revision: 4, symbols: ['b'] }, thread_count: 1 });
  await until(() => calls.whole.length > 0);
  assert.deepEqual(calls.whole.at(-1), [{ state: 'ended', revision: 5, symbols: ['b'] }, 1]);
  done(made);
});

test('the line is told: live, lost, complete', () => {
  const made = make();
  const { calls, stream } = made;
  stream.onopen();
  stream.onerror();
  stream.say('end');
  assert.deepEqual(calls.line, ['live', 'lost', 'complete']);
  assert.ok(stream.isClosed);
  clearTimeout(made.feed.timer);
});
