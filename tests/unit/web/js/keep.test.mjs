import assert from 'node:assert/strict';
import { test } from 'node:test';

import { shownPart } from '../../../../web/static/model/keep.js';
import { DEFAULTS } from '../../../../web/static/model/state.js';

test('nothing is said of a page that shows all', () => {
  assert.deepEqual(shownPart({ ...DEFAULTS, clock: 'wall', zoom: [1, 2], search: 'x' }, 5000), []);
});

test('each restriction of what is shown is said', () => {
  const state = {
    ...DEFAULTS,
    range: 'last2000',
    threads: [1, 2],
    language: 'python',
    gil: true,
    shape: ['fold:@libc.so.6', 'chains'],
    sandwich: 'malloc@libc.so.6',
  };
  assert.deepEqual(shownPart(state, 5000), [
    '0:03.00 – 0:05.00 (2 s)',
    '2 threads',
    'Python functions',
    'GIL only',
    'Folded libc.so.6',
    'Chains folded',
    'stacks through malloc',
  ]);
});
