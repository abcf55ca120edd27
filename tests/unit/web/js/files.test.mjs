import assert from 'node:assert/strict';
import { test } from 'node:test';

import { describeRange } from '../../../../web/static/model/change.js';
import { compareWith, learnOthers, stateThere } from '../../../../web/static/model/files.js';
import { learnFunctions, learnThreads } from '../../../../web/static/model/spelling.js';
import { DEFAULTS, parseHash, toHash } from '../../../../web/static/model/state.js';

const there = (patch, own, next) => stateThere({ ...DEFAULTS, ...patch }, own, next);

test('what has a name goes to another recording, numbers do not', () => {
  learnOthers([[2, 'b'], [3, 'c']]);
  learnFunctions({ id: [4, 5], name: ['main', 'run'], module: ['app', 'app'] });
  learnThreads([{ thread_id: 7, name: 'worker', tid: 70 }]);
  const state = there({ clock: 'wall', search: 'x', shape: ['chains'], zoom: [4, 5, 99, 4], run: '4-5', range: '10-20', threads: [7, 8] }, 1, 2);
  assert.equal(toHash(state), '#clock=wall&threads=worker@70&zoom=main@app;run@app&shape=chains&q=x');
  assert.equal(there({ range: 'last5000' }, 1, 2).range, 'last5000');
});

test('a comparison with a file stays, and is turned round where that file is shown', () => {
  learnOthers([[2, 'b'], [3, 'c']]);
  const compared = (compare, next) => there({ compare, sort: 'total' }, 1, next).compare;
  assert.equal(compared('file3', 2), 'file3');
  assert.equal(compared('file3', 3), 'file1');
  assert.equal(compared('file', 2), 'file1');
  assert.equal(compared('file', 3), 'file2');
  for (const compare of ['rest', '5-9', 'last5']) assert.equal(compared(compare, 2), '');
  assert.equal(there({ compare: 'rest', sort: 'total' }, 1, 2).sort, 'self');
  assert.equal(there({ compare: 'file3', sort: 'total' }, 1, 2).sort, 'total');
  learnOthers([[2, 'b']]);
  assert.equal(compared('file', 2), 'file');
});

test('what is compared with is named where there are several', () => {
  learnOthers([[1, 'a'], [3, 'c']]);
  assert.deepEqual(['file', 'file1', 'file3', 'file9'].map(describeRange), ['a', 'a', 'c', 'a file that is not here']);
  assert.equal(compareWith(3), 'file3');
  learnOthers([[2, 'b']]);
  assert.equal(describeRange('file'), 'the other file');
  assert.equal(compareWith(2), 'file');
});

test('the URL has the file to compare with', () => {
  assert.equal(toHash(parseHash('#compare=file3')), '#compare=file3');
  assert.equal(parseHash('#compare=filex').compare, '');
});
