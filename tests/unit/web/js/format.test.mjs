import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as format from '../../../../web/static/model/format.js';

test('durations have three digits and a unit that fits', () => {
  const expected = [
    [0, '0 s'],
    [7, '7 ns'],
    [999, '999 ns'],
    [1000, '1 µs'],
    [1234, '1.23 µs'],
    [56_780, '56.8 µs'],
    [999_499, '999 µs'],
    [999_600, '1 ms'],
    [12_345_678, '12.3 ms'],
    [999_600_000, '1 s'],
    [61_500_000_000, '61.5 s'],
    [125e9, '2 min 05 s'],
    [7199.6e9, '2 h 00 min'],
    [3 * 3600e9 + 5 * 60e9, '3 h 05 min'],
  ];
  for (const [ns, text] of expected) assert.equal(format.formatNs(ns), text);
});

test('a share of something is never shown as nothing, nor as all', () => {
  assert.equal(format.formatShare(0, 100), '0 %');
  assert.equal(format.formatShare(1, 1e9), '< 0.01 %');
  assert.equal(format.formatShare(4, 1000), '0.40 %');
  assert.equal(format.formatShare(123, 1000), '12.3 %');
  assert.equal(format.formatShare(99_999, 100_000), '> 99.9 %');
  assert.equal(format.formatShare(5, 5), '100 %');
  assert.equal(format.formatShare(5, 0), '0 %');
});

test('counts, bytes, rates, clocks', () => {
  assert.equal(format.formatCount(1234567), '1\u202f234\u202f567');
  assert.equal(format.formatPlural(1, 'thread'), '1 thread');
  assert.equal(format.formatPlural(12, 'thread'), '12 threads');
  assert.equal(format.formatBytes(11_400_000), '11.4 MB');
  assert.equal(format.formatRate(100), '100 Hz');
  assert.equal(format.formatRate(2500), '2.5 kHz');
  assert.equal(format.formatElapsed(7.9e9), '0:07');
  assert.equal(format.formatElapsed(3723e9), '1:02:03');
});

test('names and places', () => {
  assert.equal(format.programName('/usr/bin/redis-server 127.0.0.1:6379'), 'redis-server');
  assert.equal(format.programName(''), '(unknown)');
  assert.equal(format.formatPlace('/a/b/c.cc', 12), 'c.cc:12');
  assert.equal(format.formatPlace('/a/b/c.cc', 0), 'c.cc');
  assert.equal(format.formatPlace('', 12), '');
});
