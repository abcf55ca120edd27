import assert from 'node:assert/strict';
import { test } from 'node:test';

import { formatIds, parseThreads } from '../../../../web/static/model/spelling.js';
import * as state from '../../../../web/static/model/state.js';

test('the hash holds the state, and nothing when all is as at the start', () => {
  assert.equal(state.toHash(state.DEFAULTS), '');
  const some = {
    clock: 'off-cpu',
    beside: true,
    by: 'process',
    threads: [2, 3, 17, 18, 19],
    zoom: [5, 0, 5],
    run: '7-12',
    shape: ['hide:std::map<int, long>@lib\\;x.so', 'fold:@libc.so.6', 'chains'],
    sandwich: 'malloc@libc.so.6',
    compare: 'rest',
    scale: 'time',
    widthOf: 'both',
    layout: 'icicle',
    tab: 'functions',
    sort: 'total',
    language: 'python',
    plumbing: true,
    gil: true,
    range: '12000-20000',
    compare: '30000-38000',
    heat: 'waits',
    search: 'std::(map|set)<int, 100%> #1',
  };
  assert.deepEqual(state.parseHash(state.toHash(some)), some);
});

test('the hash stays readable', () => {
  const some = { ...state.DEFAULTS, zoom: ['main@app', 'Server::run@app'], threads: ['worker-1@17'], shape: ['hide:f(int)@a/b.py'] };
  assert.equal(state.toHash(some), '#threads=worker-1@17&zoom=main@app;Server::run@app&shape=hide:f(int)@a/b.py');
  assert.deepEqual(state.parseHash(state.toHash(some)), some);
});

test('a shape goes into requests for trees, and not into those for code', () => {
  const some = { ...state.DEFAULTS, shape: ['chains'], compare: 'last5000', zoom: ['main@app', 7] };
  const query = new URLSearchParams(state.viewQuery(some, { width: 1, rows: 1, revision: 0 }));
  assert.equal(query.get('shape'), 'chains');
  assert.equal(query.get('compare'), 'last5000');
  assert.equal(query.get('zoom'), 'main@app;7');
  assert.equal(state.weightQuery(some), 'clock=cpu');
  assert.equal(state.treeQuery(some, 3), 'clock=cpu&shape=chains&compare=last5000&revision=3');
});

test('nonsense in the hash falls back to the defaults', () => {
  const hash = '#clock=sundial&threads=1,x&zoom=-1.5&layout=&tab=<b>&sort=name&language=go&plumbing=yes&gil=2&range=9&compare=all&other=1';
  assert.deepEqual(state.parseHash(hash), state.DEFAULTS);
});

test('ids of threads that there cannot be are none', () => {
  for (const threads of ['4294967296', '1-4294967295', '9-1-2', '7-']) {
    assert.deepEqual(state.parseHash(`#threads=${threads}`).threads, [], threads);
  }
  assert.deepEqual(state.parseHash('#threads=4294967295').threads, [4294967295]);
});

test('neighbouring ids of threads are written as a range', () => {
  const ids = Array.from({ length: 10_000 }, (_, at) => at + 1);
  assert.equal(formatIds([...ids, 20_000]), '1-10000,20000');
  assert.deepEqual(parseThreads('1-10000'), ids);
});

test('a request asks for what is shown and for no more', () => {
  const size = { width: 1400.6, rows: 300, revision: 7 };
  assert.equal(state.viewQuery(state.DEFAULTS, size), 'clock=cpu&width=1401&rows=300&revision=7');
  const other = { ...state.DEFAULTS, threads: [1, 2], zoom: [3, 4], search: 'a&b', tab: 'functions' };
  const query = new URLSearchParams(state.viewQuery(other, size));
  assert.equal(query.get('threads'), '1,2');
  assert.equal(query.get('zoom'), '3.4');
  assert.equal(query.get('q'), 'a&b');
  assert.equal(query.get('table'), 'self');
  assert.equal(query.get('language'), null);
  const part = { ...size, table: { first: 20, rows: 60 }, have: 3 };
  const rows = new URLSearchParams(state.viewQuery(other, part));
  assert.deepEqual([rows.get('table_first'), rows.get('table_rows'), rows.get('have')], ['20', '60', '3']);
  assert.equal(new URLSearchParams(state.viewQuery(state.DEFAULTS, part)).get('table_first'), null);
});

test('every request says which functions are counted', () => {
  const python = { ...state.DEFAULTS, language: 'native', plumbing: true };
  assert.equal(state.weightQuery(python), 'clock=cpu&language=native&plumbing=1');
  assert.match(state.viewQuery(python, { width: 1, rows: 1, revision: 0 }), /language=native&plumbing=1/);
  assert.equal(state.codeQuery(python, 7), 'function=7&clock=cpu&language=native&plumbing=1');
  assert.equal(state.weightQuery({ ...state.DEFAULTS, gil: true }), 'clock=cpu&gil=1');
  assert.equal(state.weightQuery({ ...state.DEFAULTS, range: 'last5000' }), 'clock=cpu&range=last5000');
  for (const key of state.WEIGHTS) assert.ok(key in state.DEFAULTS);
});

test('Back undoes zooming, but not each letter of a search', () => {
  const { DEFAULTS, isStep } = state;
  assert.ok(isStep(DEFAULTS, { ...DEFAULTS, zoom: [1] }));
  assert.ok(isStep(DEFAULTS, { ...DEFAULTS, clock: 'wall' }));
  assert.ok(isStep(DEFAULTS, { ...DEFAULTS, language: 'python' }));
  assert.ok(!isStep(DEFAULTS, { ...DEFAULTS, search: 'm' }));
});

test('an exact search is a regular expression and finds the name and nothing else', () => {
  const name = 'std::operator+<char>(a[1], {b}) $^.*?|\\';
  const search = state.exactPattern(name);
  assert.ok(search.startsWith('re:'));
  const pattern = new RegExp(search.slice('re:'.length));
  assert.ok(pattern.test(name));
  assert.ok(!pattern.test(`${name} `));
});

test('more rows are asked for in time, once', () => {
  const { rowsToAsk, ROWS_STEP } = state;
  assert.equal(rowsToAsk(10, 300, 900), 300);
  assert.equal(rowsToAsk(290, 300, 900), 290 + ROWS_STEP);
  assert.equal(rowsToAsk(290, 300, 299), 300);
});

test('news are fetched soon, but at most four times a second', () => {
  const pacer = new state.Pacer(250);
  assert.equal(pacer.delay(0), null);
  pacer.news();
  assert.equal(pacer.delay(1000), 0);
  pacer.started(1000);
  pacer.news();
  assert.equal(pacer.delay(1010), null); // one at a time
  pacer.finished(1020);
  assert.equal(pacer.delay(1020), 230);
  assert.equal(pacer.delay(1300), 0);
});

test('what was not answered is asked for again, but not at once, and ever later', () => {
  const pacer = new state.Pacer(250, 2000);
  pacer.news();
  pacer.started(0);
  pacer.failed(30);
  assert.equal(pacer.delay(30), 2000);
  pacer.started(2030);
  pacer.failed(2040);
  assert.equal(pacer.delay(2040), 4000); // ever later
  pacer.started(6040);
  pacer.finished(6050);
  assert.equal(pacer.delay(9000), null);
});

test('a slow server is asked a third of the time at most', () => {
  const pacer = new state.Pacer(250);
  pacer.news();
  pacer.started(0);
  pacer.news();
  pacer.finished(400);
  assert.equal(pacer.delay(400), 800);
});

test('a file is asked for as it is shown, or whole', () => {
  const some = {
    ...state.DEFAULTS,
    clock: 'wall',
    range: 'last10000',
    shape: ['hide:malloc', 'inverted'],
    sandwich: '?json',
    search: 'x',
    zoom: [1],
  };
  assert.equal(state.exportQuery(some, false), 'clock=wall');
  const shown = new URLSearchParams(state.exportQuery(some, true));
  assert.deepEqual(Object.fromEntries(shown), {
    clock: 'wall',
    range: 'last10000',
    shape: 'hide:malloc;inverted;only:?json',
  });
});
