import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

import { DEFAULTS } from '../../../../web/static/model/state.js';
import { Views } from '../../../../web/static/server/views.js';

globalThis.document = { hidden: false };

let asked; // the requests: {query, answer(value), fail(), signal}
globalThis.fetch = (url, { signal } = {}) =>
  new Promise((resolve, reject) => {
    signal?.addEventListener('abort', () => reject(new Error('aborted')));
    asked.push({
      query: new URL(url, 'http://x/').searchParams,
      signal,
      answer: (value) => resolve({ ok: true, json: async () => value }),
      refuse: (status, error) => resolve({ ok: false, status, json: async () => ({ error }) }),
      fail: () => reject(new TypeError('no network')),
    });
  });

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until a condition holds. */
async function until(holds) {
  for (let tries = 0; !holds(); tries++) {
    assert.ok(tries < 2000, String(holds));
    await pause(5);
  }
}

function answer(revision, names) {
  return {
    revision,
    total_ns: 10,
    zoom: { path: [], box: 0, asked: 0 },
    boxes: { row: [0], x_ns: [0], total_ns: [10], self_ns: [10], parent: [-1], hidden: [0], function: [-1] },
    functions: { id: [7] },
    names,
    search: null,
    table: null,
  };
}

function make() {
  const calls = { shown: [], failed: [], offline: [] };
  const views = new Views(() => DEFAULTS, () => ({ width: 100, rows: 300 }), {
    show: (view) => calls.shown.push(view),
    failed: (message) => calls.failed.push(message),
    offline: (how) => calls.offline.push(how),
    isHeld: () => false,
  });
  views.pacer.gapMs = 0;
  return { views, calls };
}

beforeEach(() => (asked = []));

test('names come once, and the next request says what the page has', async () => {
  const { views, calls } = make();
  views.request();
  assert.equal(asked[0].query.get('have'), '0');
  asked[0].answer(answer(1, { answer: 41, functions: { id: [7], name: ['main'], module: ['m'] } }));
  await until(() => calls.shown.length === 1);
  views.request();
  assert.equal(asked[1].query.get('have'), '41');
  asked[1].answer(answer(2, { answer: 42, functions: { id: [], name: [], module: [] } }));
  await until(() => calls.shown.length === 2);
  assert.deepEqual(calls.shown.map(({ functions }) => functions.name), [['main'], ['main']]);
});

test('a newer request ends the one under way, whose names do not count', async () => {
  const { views, calls } = make();
  views.request();
  views.request({ isNewPlace: true });
  assert.ok(asked[0].signal.aborted);
  assert.equal(asked[1].query.get('have'), '0');
  asked[1].answer(answer(1, { answer: 5, functions: { id: [7], name: ['main'] } }));
  await until(() => calls.shown.length > 0);
  assert.equal(calls.shown.length, 1);
  assert.deepEqual(calls.failed, []);
});

test('news are asked for, a hidden page asks for none', async () => {
  const { views, calls } = make();
  views.request();
  asked[0].answer(answer(1));
  await until(() => calls.shown.length === 1);
  document.hidden = true;
  views.news(2);
  await pause(20);
  assert.equal(asked.length, 1);
  document.hidden = false;
  views.schedule();
  await until(() => asked.length === 2);
  assert.equal(asked[1].query.get('revision'), '2');
  asked[1].answer(answer(2));
  await until(() => calls.shown.length === 2);
});

test('an error of the server is told, a missing answer leaves the page as it is', async () => {
  const { views, calls } = make();
  views.request();
  asked[0].refuse(400, 'zoom must be numbers');
  await until(() => calls.failed.length > 0);
  assert.deepEqual(calls.failed, ['zoom must be numbers']);
  views.request();
  asked.at(-1).fail();
  await until(() => calls.offline.length > 0);
  assert.deepEqual(calls.offline, [{ isLive: false }]);
  clearTimeout(views.timer);
});
