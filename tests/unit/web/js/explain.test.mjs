import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Palette, oklch } from '../../../../web/static/model/color.js';
import * as explain from '../../../../web/static/model/explain.js';

const abi = readFileSync(new URL('../../../../agent/abi.h', import.meta.url), 'utf8');

function enumNames(prefix) {
  const names = [...abi.matchAll(new RegExp(`^\\s*${prefix}_(\\w+)\\s*=`, 'gm'))];
  return names.map(([, name]) => name).filter((name) => name !== 'COUNT');
}

test('every counter of the agent is explained', () => {
  const known = explain.COUNTER_GROUPS.flatMap(({ counters }) => counters.map(([name]) => name));
  assert.deepEqual(
    enumNames('COUNTER').map((name) => name.toLowerCase()).filter((name) => !known.includes(name)),
    [],
  );
  assert.equal(new Set(known).size, known.length);
});

test('every verdict of the agent is explained', () => {
  const known = explain.VERDICTS.map(([name]) => name);
  assert.deepEqual(enumNames('VERDICT').filter((name) => !known.includes(name)), []);
});

test('every verdict on Python functions is explained, and exact ones add up', () => {
  const known = explain.PYTHON_VERDICTS.map(([name]) => name);
  assert.deepEqual(
    enumNames('MANAGED').filter((name) => name !== 'NONE' && !known.includes(name)),
    [],
  );
  const found = explain.explainPython({ EXACT: 90, ENTERING: 5, TORN: 5 });
  assert.deepEqual([found.total, found.exact, found.rows.length], [100, 95, 3]);
  assert.equal(explain.explainPython().total, 0);
});

test('what the compiler described nearby only is no lack', () => {
  const found = explain.explainPython({ EXACT: 30, NEAREST: 69, TORN: 1 });
  assert.deepEqual([found.exact, found.whole], [30, 99]);
  const status = { managed_verdict_cpu_ns: { EXACT: 30, NEAREST: 70 }, languages: ['Java'], verdict_cpu_ns: {}, counters: {} };
  const { text, level } = explain.summarise(status).find(({ id }) => id === 'python');
  assert.deepEqual([text, level], ['100 % whole Java stacks', 'good']);
});

test('a Python function has source and no assembly', () => {
  const f = { kind: 'python' };
  assert.ok(explain.hasCode(f) && !explain.hasAssembly(f));
  assert.ok(explain.hasAssembly({ kind: 'native' }) && !explain.hasAssembly(null));
  assert.equal(explain.originLabel('stdlib'), 'standard library');
  assert.equal(explain.explainKind({ kind: 'synthetic', name: '[no Python frames]' }).badge, 'not a function');
});

test('a function that left no frame is marked', () => {
  assert.equal(explain.explainKind({ kind: 'tail call', name: 'f' }).badge, 'tail call');
  assert.equal(explain.explainKind({ kind: 'native', name: 'f' }), null);
});

test('waiting for a CPU is explained', () => {
  const { badge, text } = explain.explainKind({ kind: 'synthetic', name: '[waiting for a CPU]' });
  assert.equal(badge, 'not a function');
  assert.match(text, /busy/);
});

test('the engine is shown by name', () => {
  const shown = (engine) => explain.explainCounters({ engine_now: engine })[0].rows[0].shown;
  assert.deepEqual([shown(0), shown(1), shown(7)], ['looks at fixed times', 'CPU timers', '7']);
});

test('a counter nobody has explained yet is shown by its name', () => {
  const groups = explain.explainCounters({ ring_full: 2, brand_new: 5 });
  assert.equal(groups.at(-1).title, 'Other');
  assert.deepEqual(groups.at(-1).rows.map(({ name, shown }) => [name, shown]), [['brand_new', '5']]);
  assert.equal(groups[0].rows[0].value, 2);
});

const healthy = {
  verdict_cpu_ns: { COMPLETE: 995, GUESSED: 5 },
  counters: { handler_ns_total: 1e6, sampler_cpu_ns: 1e6 },
  duration_ns: 1e9,
  symbols: [{ module: 'a', source: 'symcache', has_lines: true }],
  symbols_pending: 0,
};

const view = { nameless_ns: 1, total_ns: 100 };

function levels(status, shown = view) {
  return Object.fromEntries(explain.summarise(status, shown).map(({ id, level }) => [id, level]));
}

test('a good recording is said to be good', () => {
  assert.deepEqual(levels(healthy), { stacks: 'good', lost: 'good', names: 'good', cost: 'good' });
  assert.ok(Math.abs(explain.costShare(healthy) - 0.002) < 1e-12);
});

test('each flaw shows', () => {
  for (const name of ['intervals_lost', 'threads_lost', 'traces_lost', 'modules_lost', 'records_lost']) {
    assert.equal(levels({ ...healthy, counters: { [name]: 1 } }).lost, 'bad', name);
  }
  assert.equal(levels({ ...healthy, counters: { eintr_unrepairable: 1 } }).eintr, 'bad');
  assert.equal(levels({ ...healthy, counters: { sampler_cpu_ns: 2e7 } }).cost, 'fair');
  assert.equal(levels(healthy, { nameless_ns: 6, total_ns: 100 }).names, 'fair');
  const cut = { COMPLETE: 50, NO_UNWIND_INFO: 50 };
  assert.equal(levels({ ...healthy, verdict_cpu_ns: cut }).stacks, 'bad');
});

test('trust is one sentence: what is bad, else what is fair', () => {
  const said = (status, shown) => explain.explainTrust(explain.summarise(status, shown));
  assert.deepEqual(said(healthy, view), { level: 'good', text: 'Fully: 100 % complete stacks; nothing lost; 1.0 % without names.' });
  assert.equal(said({ ...healthy, verdict_cpu_ns: {} }, view).level, 'none');
  const nameless = { nameless_ns: 30, total_ns: 100 };
  assert.deepEqual(said(healthy, nameless), { level: 'fair', text: 'Largely, but mind: 30.0 % without names.' });
  const above = { nameless_ns: 0, nameless_frames: 0.4, total_ns: 100 };
  assert.equal(said(healthy, above).text, 'Largely, but mind: 40.0 % of all frames have no name.');
  assert.match(said(healthy, { ...above, nameless_ns: 1, nameless_frames: 0.1 }).text, /1\.0.% without names, 10\.0.% of all frames have no name/);
  const lossy = { ...healthy, counters: { intervals_lost: 7, sampler_cpu_ns: 9e7 } };
  assert.deepEqual(said(lossy, nameless), { level: 'bad', text: 'With care: 7 lost; 30.0 % without names.' });
});

test('a share is as precise as its samples are many', () => {
  assert.equal(explain.marginOf(50, 100, 0.01), 0.01); // 10 000 samples
  assert.equal(explain.marginOf(100, 100, 1), 0);
  assert.equal(explain.marginOf(1, 100, 0), null);
  assert.equal(explain.sampleNs({ effective_rate_hz: 100 }, 'cpu'), 1e7);
  assert.equal(explain.sampleNs({ effective_rate_hz: 100 }, 'wall'), 0);
  assert.match(explain.explainPrecision(100e9, 1e7), /^10\u202f000 samples are shown: .*± 1\.0 percentage.*± 0\.2\.$/);
  assert.equal(explain.explainPrecision(0, 1e7), '');
});

test('of a file of another profiler, only its names are judged', () => {
  const status = { source: 'pprof', counters: {}, verdict_cpu_ns: {}, symbols_pending: 0 };
  const facts = explain.summarise(status, { total_ns: 10, nameless_ns: 0 });
  assert.deepEqual(facts.map(({ id }) => id), ['source', 'names']);
  assert.match(explain.explainTrust(facts).text, /flametap did not take these stacks \(pprof\)/);
});

test('what sampling costs on a device is not known', () => {
  const { text, level } = explain.summarise({ ...healthy, engine: 'looks' }).find(({ id }) => id === 'cost');
  assert.deepEqual([text, level], ['cost not known', 'fair']);
});

test('nothing recorded yet is no flaw', () => {
  const nothing = { verdict_cpu_ns: {}, counters: {}, duration_ns: 0, symbols: [] };
  assert.ok(explain.summarise(nothing).every(({ level }) => level === 'good'));
});

test('colours are the same for the same names, and the program has its own', () => {
  const box = { kind: 'native', module: 'libc.so.6', name: 'malloc' };
  const palette = new Palette('light', 'orderd');
  assert.equal(palette.box(box), new Palette('light', 'orderd').box({ ...box }));
  assert.deepEqual(palette.shade('libc.so.6'), palette.shade('libc.so.7'));
  assert.notDeepEqual(palette.shade('orderd'), new Palette('light', 'other').shade('orderd'));
  assert.notEqual(palette.box(box), new Palette('dark', 'orderd').box(box));
  for (let at = 0; at < 300; at++) {
    assert.match(palette.box({ kind: 'native', module: `lib${at}`, name: 'f' }), /^rgb\(\d+, \d+, \d+\)$/);
  }
});

test('oklch agrees with known colours', () => {
  assert.equal(oklch(1, 0, 0), 'rgb(255, 255, 255)');
  assert.equal(oklch(0, 0, 0), 'rgb(0, 0, 0)');
  assert.equal(oklch(0.627955, 0.257683, 29.2339), 'rgb(255, 0, 0)');
});

test('where a thread is now, is said only while it is known', () => {
  const recording = { state: 'recording' };
  const text = (thread, status = recording) => explain.describeWait({ waits_in: '', ...thread }, status).text;
  assert.equal(text({ waits_in: 'futex' }), 'futex');
  assert.equal(text({}), 'running');
  assert.equal(text({}, { state: 'ended' }), '–');
  assert.equal(text({}, { state: 'paused' }), '–');
  assert.equal(text({ exited: true }), 'ended');
  assert.equal(text({ signals_blocked: true }), 'running or waiting');
});

test('the GIL: how long it was held, and awaited', () => {
  const waits = { held_ns: 9e8, awaited_ns: 2.1e9, waiting: 2 };
  assert.equal(
    explain.describeGil(waits, 1e9),
    'The GIL was held 90.0 % of the time. 2 threads waited for it, 2.1 s in all.',
  );
  const alone = { held_ns: 1.01e9, awaited_ns: 0, waiting: 0 };
  assert.equal(explain.describeGil(alone, 1e9), 'The GIL was held 100 % of the time. No thread waited for it.');
});
