import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Answers, NotInReport } from '../../../../web/static/report/answers.js';
import { grades, zScore } from '../../../../web/static/report/comparison.js';
import { Tree } from '../../../../web/static/report/tree.js';

const MS = 1_000_000;

function packed(columns) {
  const bytes = [columns[0].length];
  for (let value of columns.flat()) {
    for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
    bytes.push(value);
  }
  return new Uint8Array(bytes);
}

// main calls slow (which calls leaf) and, on the other side only, gone.
const ZEROS = [0, 0, 0, 0, 0];
const HERE = [0, 100 * MS, 700 * MS, 0, 200 * MS];
const THERE = [0, 100 * MS, 300 * MS, 400 * MS, 200 * MS];
const joined = () => new Tree(packed([[1, 2, 1, 0, 0], [0, 1, 2, 3, 4], HERE, ZEROS, ZEROS, ZEROS, THERE]), { isJoined: true });
const plain = () => new Tree(packed([[1, 1, 1, 0], [0, 1, 2, 4], HERE.filter((_, at) => at !== 3), ...Array(3).fill([0, 0, 0, 0])]));
const NAMES = ['main', 'slow', 'gone', 'leaf'];
const columns = { name: NAMES, full_name: NAMES, module: NAMES.map(() => 'prog'), file: NAMES, kind: NAMES.map(() => 'native') };

const EVEN = NAMES.map(() => 1);

function answers(total = EVEN) {
  const spreads = { cpu: [EVEN, total] };
  const compared = { trees: { cpu: joined() }, sample_ns: { cpu: 10 * MS }, spreads, lengths_ns: [2000 * MS, 1000 * MS] };
  return new Answers({ cpu: plain() }, columns, [''], [''], compared);
}

const view = (text) => answers().view(new URLSearchParams(`clock=cpu&width=1000&${text}`));

test('changes are as sure as the server says', () => {
  // Of comparison.z_scores and comparison.grades.
  const share = { here_ns: 1e9, there_ns: 1e9, sample_ns: 1e7, is_share: true };
  const time = { here_ns: 2e9, there_ns: 1e9, sample_ns: 1e7, is_share: false };
  const near = (value, expected) => assert.ok(Math.abs(value - expected) < 1e-9, `${value} is not ${expected}`);
  near(zScore(7e8, 3e8, share), 5.755257893038215);
  near(zScore(7e8, 3e8, time), 0.6867607244802597);
  assert.equal(zScore(5e6, 4e6, share), 0);
  assert.equal(zScore(1e9, 1e9, share), 0);
  assert.deepEqual(grades([4.5, 0.3, -2.6, 2.2, -3.9, 0, 1.9]), [2, 0, -1, 1, -2, 0, 0]);
  assert.deepEqual(grades([]), []);
});

test('a view has the weights of both sides', () => {
  const { boxes, comparison, functions, table, total_ns: total } = view('compare=file&table=total');
  assert.equal(total, 1000 * MS);
  assert.deepEqual(comparison, {
    here_ns: 1000 * MS,
    there_ns: 1000 * MS,
    here_total_ns: 1000 * MS,
    there_total_ns: 1000 * MS,
    sample_ns: 10 * MS,
    is_share: true,
  });
  const names = boxes.function.map((at) => functions.name[at] ?? 'all');
  assert.deepEqual(names, ['all', 'main', 'slow', 'leaf']);
  assert.deepEqual(boxes.there_ns, [1000, 1000, 500, 200].map((ms) => ms * MS));
  assert.deepEqual(boxes.change, [0, 0, 2, 0]);
  assert.deepEqual(table.rows.name, ['slow', 'gone', 'main', 'leaf']);
  assert.deepEqual(table.rows.total_here, [900, 0, 1000, 200].map((ms) => ms * MS));
  assert.deepEqual(table.rows.total_there, [500, 400, 1000, 200].map((ms) => ms * MS));
  assert.deepEqual(table.rows.total_change, [2, -2, 0, 0]);
});

test('a function that varies more by chance is less sure', () => {
  const { table } = answers([1, 3, 1, 1]).view(new URLSearchParams('clock=cpu&compare=file&table=total'));
  const changes = Object.fromEntries(table.rows.name.map((name, at) => [name, table.rows.total_change[at]]));
  assert.deepEqual(changes, { main: 0, slow: 0, gone: -2, leaf: 0 });
});

test('boxes as wide as in both, by time per second', () => {
  const { boxes, comparison, functions, total_ns: total } = view('compare=file&width_of=both&scale=time');
  assert.deepEqual([comparison.here_ns, comparison.there_ns, comparison.is_share], [2000 * MS, 1000 * MS, false]);
  assert.equal(total, 3000 * MS);
  assert.ok(boxes.function.some((at) => functions.name[at] === 'gone'));
});

test('without the comparison it is the plain report', () => {
  const { comparison, boxes, table } = view('table=self');
  assert.equal(comparison, null);
  assert.equal(boxes.there_ns, undefined);
  assert.deepEqual(table.rows.self_ns, [700, 200, 100].map((ms) => ms * MS));
  assert.throws(() => view('compare=rest'), NotInReport);
  const alone = new Answers({ cpu: plain() }, columns, [''], ['']);
  assert.throws(() => alone.view(new URLSearchParams('compare=file')), NotInReport);
});

test('rows of the tree have both sides', () => {
  const query = new URLSearchParams('clock=cpu&compare=file');
  const { comparison, nodes } = answers().tree(query, { nodes: [{ path: '0', offset: 0, limit: 10 }], heaviest: null });
  assert.equal(comparison.is_share, true);
  assert.deepEqual(nodes[0].rows.name, ['slow', 'gone']);
  assert.deepEqual(nodes[0].rows.here_ns, [900 * MS, 0]);
  assert.deepEqual(nodes[0].rows.there_ns, [500 * MS, 400 * MS]);
  assert.deepEqual(nodes[0].rows.change, [2, -2]);
});
