import assert from 'node:assert/strict';
import { test } from 'node:test';

import { PAGE_ROWS, TreeRows } from '../../../../web/static/model/tree_rows.js';

function page(path, ids, { offset = 0, count = offset + ids.length, leaves = [] } = {}) {
  const column = (value) => ids.map(value);
  const rows = {
    id: ids,
    name: column((id) => `f${id}`),
    module: column(() => 'm'),
    file: column(() => ''),
    kind: column(() => 'native'),
    full_name: column(() => ''),
    self_ns: column(() => 1),
    total_ns: column((id) => 100 - id),
    children: column((id) => (leaves.includes(id) ? 0 : 1)),
  };
  return { path, offset, count, total_ns: 100, rows };
}

const answer = (...nodes) => ({ total_ns: 100, nodes });
const names = (rows) => rows.list().map(({ name, level }) => `${level} ${name ?? '…'}`);

test('open nodes have their children below them', () => {
  const rows = new TreeRows();
  assert.deepEqual(rows.wanted(0, 30), [{ path: '', offset: 0, limit: PAGE_ROWS }]);
  rows.take(answer(page([], [1, 2], { leaves: [2] })));
  assert.deepEqual(names(rows), ['1 f1', '1 f2']);
  assert.equal(rows.list()[1].hasChildren, false);
  rows.open([1]);
  assert.deepEqual(rows.wanted(0, 30), [{ path: '1', offset: 0, limit: PAGE_ROWS }]);
  rows.take(answer(page([1], [3])));
  assert.deepEqual(names(rows), ['1 f1', '2 f3', '1 f2']);
  assert.deepEqual(rows.wanted(0, 30), []);
  assert.deepEqual(rows.wanted(0, 30, true).map(({ path }) => path), ['', '1']);
  rows.close([1]);
  assert.deepEqual(names(rows), ['1 f1', '1 f2']);
});

test('children come in pages, those in sight first', () => {
  const rows = new TreeRows();
  const ids = Array.from({ length: PAGE_ROWS }, (_, at) => at + 1);
  rows.take(answer(page([], ids, { count: 20_000 })));
  assert.equal(rows.list().length, 20_000);
  assert.equal(rows.list()[15_000].name, undefined);
  assert.deepEqual(rows.wanted(15_010, 15_020), [{ path: '', offset: 15_000, limit: PAGE_ROWS }]);
  rows.take(answer(page([], [70_000], { offset: 15_000, count: 20_000 })));
  assert.equal(rows.list()[15_000].name, 'f70000');
  rows.take(answer(page([], ids, { count: 50 })));
  assert.equal(rows.list().length, 50);
});

test('a heaviest path is opened as far as it goes', () => {
  const rows = new TreeRows();
  const nodes = [page([], [1, 2]), page([1], [3]), page([1, 3], [4], { leaves: [4] }), page([1, 3, 4], [])];
  rows.take(answer(...nodes), { opensFrom: 0 });
  assert.deepEqual(names(rows), ['1 f1', '2 f3', '3 f4', '1 f2']);
  assert.deepEqual(rows.list().map(({ isOpen }) => isOpen), [true, true, false, false]);
});

test('another selection keeps the same nodes open', () => {
  const rows = new TreeRows();
  rows.take(answer(page([], [1]), page([1], [3])), { opensFrom: 0 });
  rows.forget();
  assert.deepEqual(names(rows), []);
  assert.deepEqual(rows.wanted(0, 30).map(({ path }) => path), ['', '1', '1.3'].slice(0, 2));
  rows.take(answer(page([], [2, 1]), page([1], [5])));
  assert.deepEqual(names(rows), ['1 f2', '1 f1', '2 f5']);
});
