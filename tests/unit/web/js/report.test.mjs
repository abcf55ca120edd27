import assert from 'node:assert/strict';
import { test } from 'node:test';

import { linesOf } from '../../../../web/static/report/code.js';
import { Times } from '../../../../web/static/report/time.js';
import { Lanes } from '../../../../web/static/model/timeline.js';

const MS = 1_000_000;
const plane = (shares) => shares.map((share) => String.fromCharCode(35 + share)).join('');
const lane = (id, cpu, threads) => ({ thread_id: id, tid: id, name: `t${id}`, planes: { cpu: plane(cpu) }, sums_ns: [id], scale_ns: MS, threads });

function time(startMs, endMs, stepMs, cpu) {
  const count = cpu.length;
  const bins = { start_ns: startMs * MS, step_ns: stepMs * MS, level: 0, count };
  const whole = { start_ns: 0, step_ns: stepMs * MS, level: 0, count };
  return {
    start_ns: startMs * MS,
    end_ns: endMs * MS,
    heat: { cpu: `heat of ${startMs}` },
    lanes: {
      revision: 1,
      duration_ns: 80 * MS,
      even_ns: 0,
      bins,
      all: lane(0, cpu),
      lanes: [1, 2, 3, 4, 5, 6].map((id) => lane(id, cpu.map((share) => share / id))),
      rest: lane(0, cpu.map(() => 30), 4),
      gil: null,
      n_busy: 2,
      n_threads: 10,
      overview_bins: whole,
      overview: lane(0, cpu),
    },
  };
}

const CPU = [50, 30, 10, 0, 20, 20, 40, 50];
const times = new Times([time(0, 80, 10, CPU), time(20, 40, 5, [12, 8, 4, 0])]);
const answer = (text) => new Lanes(times.lanes(new URLSearchParams(text)));
const shares = (one) => [...one.shares.cpu];

test('bins are put together until they are few enough', () => {
  assert.deepEqual(shares(answer('bins=8&lanes=1').lanes[0]), CPU);
  const four = answer('bins=7&lanes=1');
  assert.deepEqual(shares(four.lanes[0]), [40, 5, 20, 45]);
  assert.deepEqual([four.bins.start, four.bins.step, four.bins.count, four.bins.level], [0, 20, 4, 1]);
  assert.deepEqual(shares(answer('bins=3&lanes=1').lanes[0]), [23, 33]); // averages: 22.5, 32.5
  assert.deepEqual(shares(answer('bins=8&overview=4').overview), [40, 5, 20, 45]);
  // Four bins of twice the time: as many CPUs as before.
  assert.equal(answer('bins=8&overview=8').overview.scale_ns, MS);
  assert.equal(answer('bins=8&overview=4').overview.scale_ns, 2 * MS);
});

test('a part of the time, in the finest bins that have all of it', () => {
  const part = answer('from=30&to=61&bins=8&lanes=1');
  assert.deepEqual(shares(part.lanes[0]), [0, 20, 20, 40]);
  assert.equal(part.bins.start, 30);
  const fine = answer('from=20&to=40&bins=8&lanes=1');
  assert.deepEqual(shares(fine.lanes[0]), [12, 8, 4, 0]);
  assert.equal(times.heat(new URLSearchParams('from=25&to=35&kind=cpu')), 'heat of 20');
  assert.equal(times.heat(new URLSearchParams('kind=cpu')), 'heat of 0');
});

test('threads without a lane of their own are one lane: the average of all', () => {
  const few = answer('bins=8&lanes=2');
  assert.deepEqual(few.ids, [1, 2]);
  assert.equal(few.rest.threads, 8);
  assert.equal(shares(few.rest)[0], Math.round((50 / 3 + 50 / 4 + 50 / 5 + 50 / 6 + 4 * 30) / 8));
  assert.deepEqual(answer('bins=8&lanes=2&skip=2').ids, [3, 4]);
  assert.deepEqual(answer('bins=8&lanes=4&skip=4').ids, []); // the others are idle
  const six = new Times([{ ...time(0, 80, 10, CPU), lanes: { ...time(0, 80, 10, CPU).lanes, rest: null, n_busy: 6 } }]);
  const all = new Lanes(six.lanes(new URLSearchParams('bins=8&lanes=5')));
  assert.deepEqual([all.lanes.length, all.rest], [6, null]); // in the room of "1 other"
  assert.deepEqual(answer('bins=8&lanes=4&skip=4&idle=1').ids, [5, 6]);
});

test('the lines of a function get their texts back', () => {
  const code = {
    files: ['/a.c', '/b.c'],
    texts: { 1: { 7: 'seven' } },
    functions: { 4: { cpu: { file: '/b.c', self_ns: 5, lines: { file: [1, 1, 0], line: [7, 8, 7] } } } },
  };
  const found = linesOf(code, new URLSearchParams('function=4&clock=cpu'));
  assert.deepEqual(found.files, ['/b.c', '/a.c']);
  assert.deepEqual(found.lines, { file: [0, 0, 1], line: [7, 8, 7], text: ['seven', null, null] });
  assert.equal(linesOf(code, new URLSearchParams('function=4&clock=wall')), null);
  assert.equal(linesOf(code, new URLSearchParams('function=5')), null);
});
