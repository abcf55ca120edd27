import assert from 'node:assert/strict';
import { test } from 'node:test';

import { explainModules, hasCode } from '../../../../web/static/model/explain.js';
import { codeRows, hottestRow, nextHot, rowsInSight, sourceRows } from '../../../../web/static/model/listing.js';
import { DEFAULTS, codeQuery } from '../../../../web/static/model/state.js';

const SOURCE = {
  file: '/src/a.c',
  files: ['/src/a.c'],
  total_ns: 1000,
  lines: {
    file: [0, 0, 0, 0],
    line: [0, 10, 11, 40],
    self_ns: [10, 0, 500, 90],
    total_ns: [10, 0, 500, 990],
    text: [null, 'a', 'b', null],
  },
};

test('lines become rows, with gaps where lines were left out', () => {
  const rows = sourceRows(SOURCE);
  assert.deepEqual(rows.map(({ kind }) => kind), ['unknown', 'code', 'code', 'gap', 'code']);
  assert.deepEqual(rows.map(({ place }) => place), ['?', '10', '11', undefined, '40']);
  assert.deepEqual(rows.map(({ self }) => self), ['1.0 %', '', '50.0 %', undefined, '9.0 %']);
  assert.deepEqual([rows[2].heat, rows[4].total, rows[4].text], [1, '99.0 %', '']);
});

test('a function that only calls others is hot where its calls take long', () => {
  const lines = { ...SOURCE.lines, self_ns: [0, 9, 0, 0], total_ns: [0, 10, 0, 990] };
  const rows = sourceRows({ ...SOURCE, lines });
  assert.deepEqual([hottestRow(rows), rows[4].heat, nextHot(rows, 4, -1)], [4, 1, 1]);
});

test('lines in several files stand below the names of these', () => {
  const { lines } = SOURCE;
  const files = ['/src/a.c', '/src/b.inc'];
  const rows = sourceRows({ ...SOURCE, files, lines: { ...lines, file: [0, 0, 1, 1] } });
  assert.deepEqual(rows.map(({ kind }) => kind), ['file', 'unknown', 'code', 'file', 'code', 'gap', 'code']);
  assert.deepEqual([rows[0].text, rows[0].self], ['/src/a.c', '1.0 %']);
  assert.deepEqual([rows[3].text, rows[3].self, rows[3].heat], ['/src/b.inc', '59.0 %', 0]);
  assert.equal(hottestRow(rows), 4);
  assert.equal(nextHot(rows, 2, 1), 4); // not the heading
  assert.equal(new Set(rows.map(({ key }) => key)).size, rows.length);
  const elsewhere = sourceRows({ ...SOURCE, files: ['/src/b.inc'] });
  assert.equal(elsewhere[0].text, '/src/b.inc');
});

test('instructions become rows, with gaps between pieces', () => {
  const rows = codeRows({
    total_ns: 10,
    files: ['/src/a.c'],
    names: ['inner'],
    rows: {
      addr: ['ffffffffff600000', 'ffffffffff600003', '10'],
      data: ['48 89 c3', '90', 'e8 00'],
      text: ['movq', 'nop', 'callq 0x5'],
      target: ['', '', 'memcpy@plt'],
      self_ns: [0, 1, 0],
      total_ns: [0, 1, 9],
      line: [7, 0, 8],
      file: [0, -1, 0],
      inlined: [-1, -1, 0],
    },
  });
  assert.deepEqual(rows.map(({ kind }) => kind), ['code', 'code', 'gap', 'code']);
  assert.deepEqual(rows.map(({ note }) => note), ['a.c:7', '', undefined, 'inner · a.c:8']);
  assert.equal(rows[3].text, 'callq 0x5 <memcpy@plt>');
});

test('the hottest row, and the way from one to the next', () => {
  const rows = sourceRows(SOURCE);
  assert.equal(hottestRow(rows), 2);
  assert.equal(nextHot(rows, 2, 1), 4);
  assert.equal(nextHot(rows, 2, -1), 0);
  assert.equal(nextHot(rows, 4, 1), -1);
  assert.equal(hottestRow([{ kind: 'gap' }]), -1);
  const callsOnly = [{ selfNs: 0, totalNs: 1 }, { selfNs: 0, totalNs: 5 }];
  assert.equal(hottestRow(callsOnly), 1);
});

test('only rows in sight are drawn', () => {
  assert.deepEqual(rowsInSight(10_000, 20, 2000, 400, 10), [90, 130]);
  assert.deepEqual(rowsInSight(5, 20, 0, 400, 10), [0, 5]);
  assert.deepEqual(rowsInSight(5, 20, 99_999, 400, 10), [5, 5]); // it was longer a moment ago
  assert.deepEqual(rowsInSight(0, 20, 0, 0), [0, 0]);
});

test('modules say what part of them has names and lines', () => {
  const module = { module: 'm', source: 'symtab', has_lines: false, note: '', total_ns: 80 };
  const { named, lined, rows } = explainModules({
    total_ns: 100,
    modules: [
      { ...module, self_ns: 80, named_ns: 60, lined_ns: 20 },
      { ...module, self_ns: 0, named_ns: 0, lined_ns: 0 },
    ],
  });
  assert.deepEqual([named, lined], [60, 20]);
  assert.equal(rows[0].summary, '75.0 % with function names, 25.0 % with lines');
  assert.deepEqual(rows[0].parts, [['good', 0.25], ['fair', 0.5], ['bad', 0.25]]);
  assert.deepEqual(rows[1].parts, []);
  assert.match(rows[1].summary, /80\.0 %/);
});

test('what is no function has no code', () => {
  assert.ok(hasCode({ kind: 'inlined' }));
  for (const f of [null, { kind: 'syscall' }, { kind: 'synthetic' }]) assert.ok(!hasCode(f));
});

test('a request for code says clock and threads', () => {
  const state = { ...DEFAULTS, clock: 'wall', threads: [1, 2] };
  assert.equal(codeQuery(state, 7), 'function=7&clock=wall&threads=1%2C2');
});
