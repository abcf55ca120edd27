import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { ORIGINS, Palette, mix } from '../../../../web/static/model/color.js';

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
  const inNoPackage = { kind: 'java', module: '', name: 'Shop.quote', origin: 'project' };
  assert.equal(palette.box(inNoPackage), palette.box({ ...inNoPackage, module: 'shop' }));
  assert.equal(palette.swatch(f), palette.module('libx.so'));
  assert.equal(palette.swatch({ ...f, origin: 'stdlib' }), palette.origin('stdlib'));
  assert.equal(palette.swatch({ name: '[read]', kind: 'syscall', module: '', origin: 'native' }), palette.origin('kernel'));
});

// Names of modules that get the eleven colours: that of the program, and one for each of the others.
function modulesOfAllColors(palette) {
  const found = new Map([[palette.module('prog'), 'prog']]);
  for (let at = 0; found.size < 11 && at < 1000; at++) {
    const module = `lib${'abcdefghijklmnopqrstuvwxyz'[at % 26]}${at}x.so`;
    if (!found.has(palette.module(module))) found.set(palette.module(module), module);
  }
  return [...found.values()];
}

function distance(vision, one, other) {
  const [a, b] = [one, other].map((each) => oklab(vision, each));
  return Math.hypot(...a.map((value, at) => value - b[at]));
}

test('the 55 pairs of module colours differ, also for people who do not see all hues', () => {
  for (const theme of THEMES) {
    const palette = new Palette(theme, 'prog');
    const modules = modulesOfAllColors(palette);
    assert.equal(modules.length, 11);
    for (const vision of Object.keys(VISION)) {
      const colors = [...modules.map((module) => palette.module(module)), palette.match];
      const least = vision === 'full' ? 0.085 : 0.06;
      colors.forEach((color, at) => {
        for (const other of colors.slice(at + 1)) {
          const found = distance(vision, color, other);
          assert.ok(found >= least, `${theme} ${vision}: ${color} and ${other}, ${found.toFixed(3)}`);
        }
      });
    }
  }
});

test('functions of one module look more alike than those of two', () => {
  for (const theme of THEMES) {
    const palette = new Palette(theme, 'prog');
    const modules = modulesOfAllColors(palette);
    const boxes = modules.map((module) => [...'abcdefghijkl'].map((name) => palette.box({ kind: 'native', module, name })));
    for (const vision of Object.keys(VISION)) {
      boxes.forEach((some, at) => {
        for (const others of boxes.slice(at + 1)) {
          const closest = Math.min(...some.flatMap((box) => others.map((other) => distance(vision, box, other))));
          assert.ok(closest > 0.03, `${theme} ${vision} ${modules[at]}: ${closest.toFixed(3)}`);
        }
      });
    }
  }
});

test('every label is legible: plain, matching, dimmed, of an ancestor, on stripes', () => {
  for (const theme of THEMES) {
    const palette = new Palette(theme, 'prog');
    const modules = modulesOfAllColors(palette);
    const kinds = ['native', 'inlined', 'tail call', 'unknown', 'syscall', 'synthetic'];
    const boxes = [...'abcdefghijklmnop'].flatMap((name) =>
      modules.flatMap((module) => kinds.map((kind) => palette.box({ kind, module, name }))),
    );
    const queued = palette.box({ kind: 'syscall', module: '', name: '[waiting for a CPU]' });
    boxes.push(queued, palette.root, palette.run, mix('#000000', queued, 0.16));
    for (const color of boxes) {
      const found = {
        plain: contrast(color, palette.text),
        dimmed: contrast(palette.dimmed(color), palette.quietText),
        ancestor: contrast(palette.ancestor(color), palette.text),
      };
      for (const [state, value] of Object.entries(found)) {
        assert.ok(value >= AA, `${theme} ${state} ${color}: ${value.toFixed(2)}`);
      }
    }
    for (const color of [palette.run, palette.ancestor(palette.run)]) {
      assert.ok(contrast(color, palette.quietText) >= AA, `${theme} run: ${contrast(color, palette.quietText).toFixed(2)}`);
    }
    assert.ok(contrast(palette.match, palette.matchText) >= AA, `${theme} match`);
  }
});

test('the outlines of the hovered and the selected box stand out from every box', () => {
  const css = readFileSync(new URL('../../../../web/static/css/base.css', import.meta.url), 'utf8');
  const outlines = [...css.matchAll(/--focus: (#\w+)/g)].map(([, color]) => color);
  assert.ok(outlines.length >= 2);
  for (const theme of THEMES) {
    const palette = new Palette(theme, 'prog');
    for (const module of modulesOfAllColors(palette)) {
      const color = palette.box({ kind: 'native', module, name: 'f' });
      assert.ok(contrast(color, palette.text) >= 3, `${theme} ${module}`);
    }
    // Two lines around the selected box.
    const focus = outlines[theme === 'light' ? 0 : 1];
    assert.ok(contrast(palette.paper, focus) >= 3, `${theme}: ${contrast(palette.paper, focus).toFixed(2)}`);
  }
});

test('waiting for a CPU has a colour of its own', () => {
  for (const theme of THEMES) {
    for (const palette of [new Palette(theme, 'prog'), new Palette(theme, 'prog', true)]) {
      const waiting = { module: '', origin: palette.hasPython ? 'kernel' : undefined };
      const queued = palette.box({ ...waiting, kind: 'synthetic', name: '[waiting for a CPU]' });
      const futex = palette.box({ ...waiting, kind: 'syscall', name: '[futex]' });
      for (const vision of Object.keys(VISION)) assert.ok(distance(vision, queued, futex) >= 0.04, `${theme} ${vision}`);
    }
  }
});
