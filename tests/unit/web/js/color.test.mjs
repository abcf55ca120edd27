import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ORIGINS, Palette } from '../../../../web/static/model/color.js';

const THEMES = ['light', 'dark'];
const AA = 4.5; // WCAG 2.1, 1.4.3: contrast of text

function linear(color) {
  const parse = color.startsWith('#')
    ? [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16))
    : color.match(/\d+/g).map(Number);
  return parse.map((byte) => {
    const value = byte / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
}

function contrast(one, other) {
  const light = (color) => linear(color).reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

// How people see colours. Source: Machado, Oliveira, Fernandes, "A physiologically-based model for
// simulation of color vision deficiency", 2009, severity 1.
const VISION = {
  full: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  deuteranope: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  protanope: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
};

function oklab(vision, color) {
  const rgb = VISION[vision].map((row) => {
    return Math.max(0, row.reduce((sum, part, at) => sum + part * linear(color)[at], 0));
  });
  const dot = (row, v) => row.reduce((sum, part, at) => sum + part * v[at], 0);
  const lms = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
  ].map((row) => Math.cbrt(dot(row, rgb)));
  return [
    [0.2104542553, 0.793617785, -0.0040720468],
    [1.9779984951, -2.428592205, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.808675766],
  ].map((row) => dot(row, lms));
}

const functions = ORIGINS.flatMap(({ origin }) => {
  const kind = origin === 'kernel' ? 'syscall' : origin === 'native' ? 'native' : 'python';
  return [...'abcdefghijklmnop'].map((name) => ({ kind, module: 'm', name, origin }));
});

test('labels are legible on the colour of every origin', () => {
  for (const theme of THEMES) {
    const palette = new Palette(theme, '', true);
    for (const f of functions) {
      const found = contrast(palette.box(f), palette.text);
      assert.ok(found >= AA, `${theme} ${f.origin}: ${found.toFixed(2)}`);
    }
  }
});

test('origins differ, also for people who do not see all hues', () => {
  for (const theme of THEMES) {
    const palette = new Palette(theme, '', true);
    for (const vision of Object.keys(VISION)) {
      const least = vision === 'full' ? 0.09 : 0.05;
      ORIGINS.forEach(({ origin }, at) => {
        for (const other of ORIGINS.slice(at + 1)) {
          const [a, b] = [origin, other.origin].map((each) => oklab(vision, palette.origin(each)));
          const distance = Math.hypot(...a.map((value, i) => value - b[i]));
          const what = `${theme} ${vision}: ${origin} and ${other.origin}, ${distance.toFixed(3)}`;
          assert.ok(distance >= least, what);
        }
      });
    }
  }
});

test('an interpreter is native code, and a native recording keeps its colours', () => {
  const palette = new Palette('light', 'prog');
  const f = { kind: 'native', module: 'libx.so', name: 'f' };
  assert.equal(palette.box(f), palette.box({ ...f, origin: undefined }));
  assert.notEqual(palette.box(f), palette.box({ ...f, origin: 'native' }));
  assert.equal(palette.origin('interpreter'), palette.origin('native'));
  assert.equal(palette.swatch(f), palette.module('libx.so'));
  assert.equal(palette.swatch({ ...f, origin: 'stdlib' }), palette.origin('stdlib'));
});
