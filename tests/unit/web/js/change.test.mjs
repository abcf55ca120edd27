import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as change from '../../../../web/static/model/change.js';
import { Palette } from '../../../../web/static/model/color.js';

function luminance(color) {
  const isHex = color.startsWith('#');
  const [r, g, b] = color.match(isHex ? /[\da-f]{2}/gi : /\d+/g).map((part) => parseInt(part, isHex ? 16 : 10));
  const linear = [r, g, b].map((byte) => {
    const part = byte / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

test('labels can be read on every colour of a change', () => {
  for (const theme of ['light', 'dark']) {
    const { text } = new Palette(theme);
    for (const grade of [-2, -1, 0, 1, 2]) {
      for (const [here, there] of [[1, 0], [0, 1], [0.5, 0.45], [0.45, 0.5], [0.3, 0.2]]) {
        const color = change.changeColor(theme, grade, { here, there });
        assert.ok(contrast(color, text) >= 4.5, `${theme} ${grade}: ${color} has ${contrast(color, text)}`);
      }
    }
  }
});

test('a change is told in words', () => {
  const sizes = { here_ns: 1000, there_ns: 500 };
  assert.deepEqual(change.sidesOf(sizes, 300, 100), { here: 0.3, there: 0.2, difference: 0.3 - 0.2 });
  assert.equal(change.formatDifference(0.123, true), '+12 points');
  assert.equal(change.formatDifference(-0.0123, true), '−1.2 points');
  assert.equal(change.formatDifference(0.0004, true), '+0.04 points');
  assert.equal(change.formatDifference(0, true), '±0 points');
  assert.equal(change.formatDifference(-0.35, false), '−350 ms/s');
  assert.equal(change.formatPart(0.35, false), '350 ms/s');
  assert.equal(change.formatPart(0.35, true), '35.0 %');
  assert.deepEqual([-2, 0, 1].map(change.signOf), ['▼', '', '▲']);
  assert.deepEqual([-2, 0, 1].map(change.sureness), ['certain', 'noise', 'likely']);
});

test('a range is told in words', () => {
  assert.equal(change.describeRange('10000-20500'), '0:10 – 0:20.5');
  assert.equal(change.describeRange('4950-7950'), '0:04.95 – 0:07.95');
  assert.equal(change.describeRange('59980-119990'), '1:00 – 2:00');
  assert.equal(change.describeRange('last5000'), 'the last 5 s');
  assert.equal(change.describeRange('rest'), 'the rest');
  assert.equal(change.describeRange(''), 'all');
});
