import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Painter } from '../../../../web/static/graph/draw.js';
import { Palette } from '../../../../web/static/model/color.js';
import { BoxView, Rows, WHOLE } from '../../../../web/static/model/layout.js';

globalThis.window = { devicePixelRatio: 2 };

/** A canvas that notes what is drawn on it. */
function canvas() {
  const drawn = [];
  const context = {
    measureText: (text) => ({ width: 7 * text.length }),
    fillRect: (x, y, w, h) => drawn.push({ kind: 'box', color: context.fillStyle, x, y, w, h }),
    fillText: (text, x) => drawn.push({ kind: 'label', color: context.fillStyle, text, x }),
    strokeRect: (x, y, w, h) => drawn.push({ kind: 'mark', color: context.strokeStyle, x, y, w, h }),
    stroke: () => drawn.push({ kind: 'stripes' }),
  };
  for (const name of ['setTransform', 'clearRect', 'save', 'restore', 'beginPath', 'rect', 'clip', 'moveTo', 'lineTo']) {
    context[name] = () => {};
  }
  return { drawn, width: 0, height: 0, style: {}, getContext: () => context };
}

// all > main > (work, [waiting for a CPU], a run of nine)
function view(matches) {
  return new BoxView({
    total_ns: 100,
    zoom: { path: [], box: 0, asked: 0 },
    deepest_row: 2,
    boxes: {
      row: [0, 1, 2, 2, 2],
      x_ns: [0, 0, 0, 40, 90],
      total_ns: [100, 100, 40, 50, 10],
      self_ns: [0, 0, 40, 50, 0],
      parent: [-1, 0, 1, 1, 1],
      hidden: [0, 0, 0, 0, 9],
      function: [-1, 0, 1, 2, -1],
    },
    functions: {
      id: [1, 2, 3],
      name: ['main', 'work', '[waiting for a CPU]'],
      module: ['prog', 'lib.so', ''],
      kind: ['native', 'native', 'synthetic'],
      file: ['', '', ''],
      full_name: ['', '', ''],
      ...(matches ? { matches } : {}),
    },
    runs: { box: [4], first: [5], last: [13] },
  });
}

function draw(shown, more = {}) {
  const [boxes, marks] = [canvas(), canvas()];
  const painter = new Painter(boxes, marks);
  const palette = new Palette('light', 'prog');
  const rows = new Rows({ count: 3, rowHeight: 20, viewHeight: 100, isFlame: false });
  const scene = { view: shown, viewport: WHOLE, rows, scrollTop: 0, width: 1000, height: 100, palette, focusColor: '#2563eb', zoomRow: 0, isSearching: false, dims: true, ...more };
  painter.drawBoxes(scene);
  return { painter, scene, palette, boxes: boxes.drawn, marks: marks.drawn };
}

test('boxes lie where their weights put them, with their names', () => {
  const { boxes, palette } = draw(view());
  const found = boxes.filter(({ kind }) => kind === 'box').map(({ x, y, w }) => [x, y, w]);
  assert.deepEqual(found, [[0, 0, 999], [0, 20, 999], [0, 40, 399], [400, 40, 499], [900, 40, 99]]);
  const labels = boxes.filter(({ kind }) => kind === 'label').map(({ text }) => text);
  assert.deepEqual(labels, ['all', 'main', 'work', '[waiting for a CPU]', '9 narrow']);
  const run = boxes.find(({ text }) => text === '9 narrow');
  assert.equal(run.color, palette.quietText);
});

test('only time spent waiting for a CPU and guesses have stripes', () => {
  const striped = (shown) => draw(shown).boxes.filter(({ kind }) => kind === 'stripes').length;
  assert.equal(striped(view()), 1);
  const guessed = view();
  guessed.functions.name[2] = '[guessed]';
  assert.equal(striped(guessed), 1);
  guessed.functions.name[2] = '[truncated]';
  assert.equal(striped(guessed), 0);
});

test('a search lights its matches, and dims the others without hiding their names', () => {
  const { boxes, palette } = draw(view([0, 1, 0]), { isSearching: true });
  const color = (at) => boxes.filter(({ kind }) => kind === 'box')[at].color;
  assert.equal(color(2), palette.match);
  assert.equal(color(1), palette.dimmed(palette.box({ kind: 'native', module: 'prog', name: 'main' })));
  assert.equal(boxes.find(({ text }) => text === 'main').color, palette.quietText);
  assert.equal(boxes.find(({ text }) => text === 'work').color, palette.matchText);
});

test('a box outside of the viewport is not drawn, one that reaches out is cut', () => {
  const { boxes } = draw(view(), { viewport: { left: 0.2, width: 0.4 } });
  const found = boxes.filter(({ kind, y }) => kind === 'box' && y === 40).map(({ x, w }) => [x, w]);
  assert.deepEqual(found, [[0, 499], [500, 499]]);
});

test('the selected box has two outlines, the hovered one another', () => {
  const { painter, scene, marks, palette } = draw(view());
  painter.drawMarks(scene, 2, 3);
  assert.deepEqual(marks.map(({ color }) => color), [palette.text, '#2563eb', palette.paper]);
  for (const { x, w } of marks.slice(1)) assert.ok(x >= 400 && x + w <= 900);
});
