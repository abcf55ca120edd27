import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Heat, cellRange, formatWaitRow, waitTicks } from '../../../../web/static/model/heat.js';

const SECONDS = { start_ns: 0, step_ns: 1e9, columns: 3, rows: 4, most: 2, planes: { cpu: '##U###FU####' } };

test('cells are column by column, from the lowest row on', () => {
  const heat = new Heat(SECONDS);
  assert.deepEqual(heat.top(0, 2), ['cpu', 50]);
  assert.equal(heat.value('cpu', 1, 2), 2 * 0.7 ** 2); // levels count square roots
  assert.equal(heat.value('cpu', 1, 3), 2);
  assert.equal(heat.value('lock', 1, 3), 0);
  assert.equal(heat.column(2999), 2);
  assert.equal(heat.column(3000), null);
});

test('colours spread over what is common: what stands out of a steady load is strong', () => {
  const text = (levels) => levels.map((level) => String.fromCharCode(35 + level)).join('');
  const steady = Array.from({ length: 940 }, (_, at) => 20 + (at % 5)); // some 0.8 CPUs, at most 5
  const heat = (levels) => new Heat({ start_ns: 0, step_ns: 1e9, columns: levels.length / 20, rows: 20, most: 5, planes: { cpu: text(levels) } });
  const burst = [...steady, ...new Array(58).fill(32), 50, 0]; // two CPUs, and one cell of five
  const { shades, from } = heat(burst).shades();
  assert.equal(shades[0], 0);
  assert.equal(shades[32], 50);
  assert.equal(shades[50], 50);
  assert.ok(shades[24] <= 15 && shades[20] >= 5, `${shades[20]} ${shades[24]}`);
  assert.equal(from, 5 * 0.64 ** 2);
  assert.deepEqual(heat(new Array(20).fill(0)).shades().shades, new Array(51).fill(0));
  assert.equal(heat(new Array(20).fill(7)).shades().shades[7], 50);
});

test('a drag goes from one moment to another, through the seconds between', () => {
  const heat = new Heat(SECONDS);
  const range = cellRange(heat, { column: 2, row: 0 }, { column: 0, row: 3 });
  assert.deepEqual(range, { from: 750, to: 2250 });
  assert.deepEqual(cellRange(heat, { column: 1, row: 1 }, { column: 1, row: 1 }), { from: 1250, to: 1500 });
  assert.deepEqual(cellRange(heat, { column: null, ms: 9999, row: 3 }, { column: 2, row: 0 }), { from: 2000, to: 3000 });
  const wide = new Heat({ ...SECONDS, step_ns: 4e9 });
  assert.deepEqual(cellRange(wide, { column: 1, row: 1 }, { column: 1, row: 2 }), { from: 4000, to: 8000 });
});

test('a range is the rest of its first second, whole seconds, and the beginning of its last', () => {
  const heat = new Heat(SECONDS);
  assert.deepEqual(heat.parts({ from: 250, to: 500 }), [{ from: 0, to: 1000, low: 0.25, high: 0.5 }]);
  assert.deepEqual(heat.parts({ from: 750, to: 2250 }), [
    { from: 0, to: 1000, low: 0.75, high: 1 },
    { from: 1000, to: 2000, low: 0, high: 1 },
    { from: 2000, to: 3000, low: 0, high: 0.25 },
  ]);
  assert.equal(heat.parts({ from: 0, to: 1000 }).length, 1);
  assert.equal(heat.parts({ from: 500, to: 1500 }).length, 2);
});

test('the number of waits is logarithmic', () => {
  const planes = { lock: '#U######', io: '#$######' };
  const heat = new Heat({ start_ns: 0, step_ns: 1e9, columns: 2, rows: 4, most: 100, planes });
  assert.deepEqual(heat.causes(0, 1), [['lock', 100], ['io', 1]]);
  assert.deepEqual(heat.causes(0, 0), []);
  assert.deepEqual(waitTicks(60).map(([label]) => label), ['1 µs', '1 ms', '1 s', '1 min']);
  assert.ok(Math.abs(waitTicks(60)[2][1] - 39.8 / 60) < 0.01);
  assert.equal(formatWaitRow(20), 'waits of 1.05 ms to 1.48 ms');
});
