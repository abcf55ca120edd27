import assert from 'node:assert/strict';
import { test } from 'node:test';

import { BoxView, Rows, WHOLE, blend, fitLabel } from '../../../../web/static/model/layout.js';

//  row 3                | run |
//  row 2   |  b  |      |  a  |
//  row 1   |    main    |   main2   |  (10 of self time of the root at the right)
//  row 0   |           all                |
function small() {
  return new BoxView({
    revision: 1,
    total_ns: 100,
    zoom: { path: [], box: 0, asked: 0 },
    deepest_row: 3,
    last_row: 300,
    boxes: {
      row: [0, 1, 1, 2, 2, 3],
      x_ns: [0, 0, 50, 0, 50, 50],
      total_ns: [100, 50, 40, 25, 25, 25],
      self_ns: [10, 25, 15, 25, 0, 0],
      line: [0, 1, 2, 3, 4, 0],
      line_file: [0, 0, 0, 1, 0, 0],
      parent: [-1, 0, 0, 1, 2, 4],
      hidden: [0, 0, 0, 0, 0, 7],
      function: [-1, 0, 1, 2, 3, -1],
    },
    functions: {
      id: [10, 11, 12, 13],
      name: ['main', 'main2', 'b', 'a'],
      module: ['m', 'm', 'm', 'm'],
      file: ['', 'main2.c', 'b.c', ''],
      kind: ['native', 'native', 'native', 'inlined'],
      full_name: ['', '', '', ''],
    },
    line_files: ['', 'b.inc'],
    line_tiers: ['', 'interpreted'],
    search: null,
    table: null,
  });
}

test('a line is in the file of its function or in one that this takes in', () => {
  const view = small();
  assert.deepEqual([0, 1, 2, 3, 5].map((box) => view.lineFileOf(box)), ['', '', 'main2.c', 'b.inc', '']);
});

test('a box says how its function runs', () => {
  const view = small();
  assert.deepEqual([0, 3, 5].map((box) => view.tierOf(box)), ['', 'interpreted', '']);
});

test('a point finds its box, empty stretches and missing rows find none', () => {
  const view = small();
  assert.equal(view.hit(0, 0.99), 0);
  assert.equal(view.hit(1, 0), 1);
  assert.equal(view.hit(1, 0.4999), 1);
  assert.equal(view.hit(1, 0.5), 2);
  assert.equal(view.hit(1, 0.95), null);
  assert.equal(view.hit(2, 0.3), null);
  assert.equal(view.hit(2, 0.6), 4);
  assert.equal(view.hit(4, 0.1), null);
  assert.equal(view.hit(-1, 0.1), null);
});

test('paths lead to boxes and back; a run of narrow boxes has the path of its parent', () => {
  const view = small();
  assert.deepEqual(view.pathOf(4), [11, 13]);
  assert.deepEqual(view.pathOf(5), [11, 13]);
  assert.deepEqual(view.pathOf(0), []);
  assert.equal(view.find([11, 13]), 4);
  assert.equal(view.find([]), 0);
  assert.equal(view.find([10, 13]), null);
});

test('arrow keys go to the caller, the heaviest callee and the neighbours', () => {
  const view = small();
  assert.equal(view.neighbour(0, 'in'), 1);
  assert.equal(view.neighbour(0, 'out'), null);
  assert.equal(view.neighbour(1, 'right'), 2);
  assert.equal(view.neighbour(2, 'right'), null);
  assert.equal(view.neighbour(3, 'right'), 4); // a cousin
  assert.equal(view.neighbour(3, 'in'), null);
  assert.equal(view.neighbour(4, 'out'), 2);
});

test('the viewport of a box is its share of the whole', () => {
  assert.deepEqual(small().viewportOf(4), { left: 0.5, width: 0.25 });
  const empty = new BoxView({
    total_ns: 0,
    boxes: { row: [0], x_ns: [0], total_ns: [0], parent: [-1], hidden: [0], function: [-1] },
    functions: { id: [], name: [] },
  });
  assert.deepEqual(empty.viewportOf(0), WHOLE);
  assert.equal(empty.hit(0, 0.5), null);
});

test('rows stand on the root, or hang from it', () => {
  const flame = new Rows({ count: 10, rowHeight: 20, viewHeight: 100, isFlame: true, padding: 8 });
  assert.equal(flame.height, 208);
  assert.equal(flame.top(0), 188);
  assert.equal(flame.rowAt(flame.top(3) + 1), 3);
  assert.deepEqual(flame.range(108, 100), [0, 6]);
  const icicle = new Rows({ count: 3, rowHeight: 20, viewHeight: 100, isFlame: false });
  assert.equal(icicle.height, 100);
  assert.equal(icicle.top(2), 40);
  assert.equal(icicle.rowAt(59), 2);
});

test('scrolling to a row leaves rows alone that are in sight', () => {
  const rows = new Rows({ count: 100, rowHeight: 20, viewHeight: 200, isFlame: true });
  const atRoot = rows.height - 200;
  assert.equal(rows.scrollTo(3, atRoot, 200), atRoot);
  const top = rows.scrollTo(50, atRoot, 200);
  assert.equal(rows.top(50) - top, 200 - 3 * 20); // two rows below it stay in sight
  assert.equal(rows.scrollTo(99, atRoot, 200), rows.top(99) + 60 - 200 < 0 ? 0 : rows.top(99) + 60 - 200);
});

test('a zoom begins where it was and ends where it should', () => {
  const to = { left: 0.5, width: 0.25 };
  assert.deepEqual(blend(WHOLE, to, 0), WHOLE);
  assert.deepEqual(blend(WHOLE, to, 1), to);
});

test('labels are cut to the width, or left out', () => {
  const seven = () => 7;
  assert.equal(fitLabel('malloc', 42, seven), 'malloc');
  assert.equal(fitLabel('malloc', 41, seven), 'ma…oc');
  assert.equal(fitLabel('malloc', 34, seven), '');
  assert.equal(fitLabel('', 20, seven), '');
});

test('labels that begin alike differ where they are cut', () => {
  const names = ['Map', 'Set', 'Heap'].map((name) => `v8::internal::${name}::Allocate${name}`);
  const labels = names.map((name) => fitLabel(name, 80, () => 7));
  assert.equal(new Set(labels).size, 3);
  for (const label of labels) assert.match(label, /^v8.*…/);
});

test('a label is never cut within a character, and cannot turn itself around', () => {
  const family = '\u{1f469}\u200d\u{1f467}';
  const label = fitLabel(`${family.repeat(3)}handle${family.repeat(3)}`, 49, () => 7);
  assert.equal(label, `${family.repeat(3)}…${family.repeat(3)}`);
  assert.equal(fitLabel('a\u202eb', 99, () => 7), 'a‹202E›b');
});
