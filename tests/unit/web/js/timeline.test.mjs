import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as time from '../../../../web/static/model/timeline.js';

test('a range is pinned, or rolls with the recording', () => {
  assert.equal(time.parseRange('', 5000), null);
  assert.equal(time.parseRange('nonsense', 5000), null);
  assert.deepEqual(time.parseRange('1000-2500', 5000), { from: 1000, to: 2500, isRolling: false });
  assert.deepEqual(time.parseRange('last10000', 25_000), { from: 15_000, to: 25_000, isRolling: true });
  assert.deepEqual(time.parseRange('last10000', 4000), { from: 0, to: 4000, isRolling: true });
});

test('a chosen range has whole milliseconds, at least one, within the recording', () => {
  assert.equal(time.toRange(10.4, 20.6, 100), '10-21');
  assert.equal(time.toRange(20.6, 10.4, 100), '10-21');
  assert.equal(time.toRange(-5, 500, 100), '0-100');
  assert.equal(time.toRange(42.2, 42.2, 100), '42-43');
  assert.equal(time.toRange(100, 100, 100), '99-100');
});

test('arrow keys choose, move and widen a range, and stay within the recording', () => {
  const shown = { from: 0, to: 10_000 };
  assert.equal(time.nudge(null, 'ArrowLeft', false, shown, 10_000), '9000-10000');
  const range = { from: 1000, to: 2000 };
  assert.equal(time.nudge(range, 'ArrowRight', false, shown, 10_000), '1200-2200');
  assert.equal(time.nudge(range, 'ArrowLeft', true, shown, 10_000), '1000-1800');
  assert.equal(time.nudge({ from: 100, to: 200 }, 'ArrowLeft', false, shown, 10_000), '0-100');
  assert.equal(time.nudge({ from: 9950, to: 10_000 }, 'ArrowRight', false, shown, 10_000), '9950-10000');
  assert.equal(time.nudge({ from: 100, to: 110 }, 'ArrowLeft', true, shown, 10_000), '100-101');
});

test('zoom keeps the moment under the pointer, and stays within the recording', () => {
  const shown = time.zoomShown({ from: 0, to: 1000 }, 0.5, 400, 1000);
  assert.deepEqual(shown, { from: 200, to: 700 });
  assert.deepEqual(time.zoomShown(shown, 4, 400, 1000), { from: 0, to: 1000 });
  assert.deepEqual(time.panShown(shown, 1e9, 1000), { from: 500, to: 1000 });
  assert.deepEqual(time.panShown(shown, -1e9, 1000), { from: 0, to: 500 });
  const closest = time.zoomShown({ from: 0, to: 1000 }, 1e-9, 500, 1000);
  assert.equal(Math.round(closest.to - closest.from), 10);
});

test('moments have as many digits as bins need', () => {
  assert.equal(time.formatMoment(62_345, 1000), '1:02');
  assert.equal(time.formatMoment(62_345, 100), '1:02.3');
  assert.equal(time.formatMoment(2345, 2), '0:02.345');
  assert.equal(time.formatMoment(59_999.9, 1000), '1:00');
  assert.equal(time.formatMoment(3_723_000, 1000), '1:02:03');
  const noon = new Date(2026, 10, 28, 12, 0, 0);
  assert.equal(time.formatTimeOfDay(noon / 1000, 61_000, noon), '12:01:01');
  assert.equal(time.formatTimeOfDay(noon / 1000, 86_400_000, noon), '2026-11-29 12:00:00');
  assert.equal(time.formatTimeOfDay(0, 61_000), '');
  assert.equal(time.formatRange({ from: 12_000, to: 20_500 }), '0:12.0 – 0:20.5 (8.5 s)');
});

test('the axis has few labels at round times', () => {
  const { at, stepMs } = time.ticks({ from: 1200, to: 64_000 }, 800);
  assert.equal(stepMs, 10_000);
  assert.deepEqual(at, [10_000, 20_000, 30_000, 40_000, 50_000, 60_000]);
});

function answer(count, start, planes, more = {}) {
  const lane = { planes, sums_ns: [1, 2], scale_ns: 1e9 };
  return {
    revision: 1,
    duration_ns: 5e9,
    even_ns: 0,
    n_busy: 1,
    n_threads: 1,
    activities: ['cpu', 'queued'],
    bins: { start_ns: start, step_ns: 1e9, level: 9, count },
    all: lane,
    lanes: [{ ...lane, thread_id: 7, tid: 70, name: 'a' }],
    rest: null,
    gil: null,
    overview_bins: null,
    overview: null,
    ...more,
  };
}

test('a plane has a character for each bin, and what is missing was not recorded', () => {
  const lanes = new time.Lanes(answer(4, 0, { cpu: '#U<#', lock: '##<#' }));
  const [lane] = lanes.lanes;
  assert.deepEqual(lane.parts(0), [['none', 1]]);
  assert.deepEqual(lane.parts(1), [['cpu', 1]]);
  assert.deepEqual(lane.parts(2), [['cpu', 0.5], ['lock', 0.5]]);
  assert.equal(time.describeParts(lane.parts(2)), '50 % on a CPU, 50 % waiting for a lock or another thread');
  assert.equal(lanes.bins.at(2500), 2);
  assert.equal(lanes.bins.at(4000), null);
  assert.equal(lanes.bins.at(-1), null);
});

test('threads of one name are told apart by their numbers', () => {
  const lanes = new time.Lanes(answer(1, 0, {}));
  assert.equal(lanes.label(lanes.lanes[0]), 'a');
  lanes.lanes.push({ name: 'a', tid: 71 }, { name: '', tid: 72 });
  assert.deepEqual(lanes.lanes.map((lane) => lanes.label(lane)), ['a 70', 'a 71', 'thread 72']);
});

test('newer bins replace the last ones and are added', () => {
  const lanes = new time.Lanes(answer(4, 0, { cpu: '#U<#' }));
  assert.ok(lanes.extend(new time.Lanes(answer(3, 3e9, { cpu: 'U#U', sleep: '#U#' }))));
  assert.equal(lanes.bins.count, 6);
  assert.deepEqual([...lanes.lanes[0].shares.cpu], [0, 50, 25, 50, 0, 50]);
  assert.deepEqual([...lanes.lanes[0].shares.sleep], [0, 0, 0, 0, 50, 0]);
  const gap = new time.Lanes(answer(1, 9e9, {}));
  assert.ok(!lanes.extend(gap), 'bins are missing in between');
  const others = answer(1, 5e9, {});
  others.lanes[0].thread_id = 8;
  assert.ok(!lanes.extend(new time.Lanes(others)), 'other threads');
});
