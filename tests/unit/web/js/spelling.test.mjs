import assert from 'node:assert/strict';
import { test } from 'node:test';

import { settled } from '../../../../web/static/model/settle.js';
import * as spelling from '../../../../web/static/model/spelling.js';

const NAMES = ['a', 'f(int, long);', 'x@y', 'back\\slash', '=x', '?x', '1.2', 'nach \u202e links', ';;@@,', '[futex]'];

test('every name and module can be read from its spelling', () => {
  for (const name of NAMES) {
    for (const module of ['', 'lib@b;.so']) {
      const text = spelling.spellFunction({ name, module });
      assert.deepEqual(spelling.readFunction(text), { name, module });
      assert.equal(spelling.split(`${text};next@m`, ';').length, 2);
    }
  }
});

test('a path is written in names once they are known, and read back as ids', () => {
  assert.equal(spelling.spellPath([900, 901]), '900.901');
  spelling.learnFunctions({ id: [900, 901, 902], name: ['main', 'a;b', 'main'], module: ['app', 'lib', 'app'], twin: ['', '', '1f2e'] });
  assert.equal(spelling.spellPath([900, 901]), 'main@app;a\\;b@lib');
  assert.deepEqual(spelling.parsePath('main@app;a\\;b@lib'), [900, 901]);
  assert.deepEqual(spelling.parsePath(spelling.spellPath([902, 900])), [902, 900]);
  assert.deepEqual(spelling.parsePath('main@app;other@lib'), [900, 'other@lib']);
  assert.deepEqual(spelling.parsePath('900.7'), [900, 7]);
  assert.equal(spelling.pathIds([900, 'other@lib']), '900;other@lib');
  assert.equal(spelling.pathIds([900, 901]), '900.901');
  assert.deepEqual([900, 'x\\@y@lib', 77].map(spelling.labelOf), ['main', 'x@y', '…']);
});

test('threads are written as NAME@TID once they are known', () => {
  assert.equal(spelling.spellThreads([7]), '7');
  spelling.learnThreads([{ thread_id: 7, name: 'a,b', tid: 41 }]);
  assert.equal(spelling.spellThreads([7, 8]), 'a\\,b@41,8');
  assert.deepEqual(spelling.parseThreads('a\\,b@41,8'), [8, 'a\\,b@41']);
  assert.deepEqual(spelling.parseThreads('1,x'), []);
});

test('a link that has what is not there says so, and gets the ids of what is', () => {
  const state = { zoom: ['main@app', 'gone@app'], threads: ['x@1', 'y@2'] };
  const zoom = { path: [900], asked: 2 };
  const threads = { chosen: [{ thread_id: 9, name: 'x', tid: 5 }, { thread_id: 3, name: 'x', tid: 6 }], missing: ['y'] };
  assert.deepEqual(settled(state, { zoom, threads }), {
    patch: { zoom: [900], threads: [3, 9] },
    said: 'gone has no time here: this is main. No thread y here.',
  });
  assert.deepEqual(settled({ zoom: [1, 2] }, { zoom: { path: [1, 2], asked: 2 } }), { patch: null, said: '' });
  assert.equal(settled({ zoom: ['main@app'] }, { zoom: { path: [900], asked: 1 } }).said, '');
});
