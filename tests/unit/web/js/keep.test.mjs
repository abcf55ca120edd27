import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fileName, openingAt, reportHash, shownPart } from '../../../../web/static/model/keep.js';
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

test('a report opens with the clock, zoom and search of its page, and without what its data has already', () => {
  const state = { ...DEFAULTS, clock: 'wall', search: 'a&"b', threads: [1], range: 'last1000', shape: ['chains'] };
  const hash = reportHash(state);
  assert.equal(hash, '#clock=wall&q=a%26%22b');
  const html = openingAt('<html data-report lang="en">', hash);
  assert.equal(html, '<html data-report data-view="#clock=wall&#38;q=a%26%22b" lang="en">');
  assert.equal(openingAt('<html data-report >', ''), '<html data-report >');
});

test('files are named after what runs, and the moment', () => {
  const now = new Date(2026, 10, 28, 2, 9);
  const status = { command: 'python3 /srv/shop.py', program: 'shop.py', pid: 7 };
  assert.equal(fileName(status, { ...DEFAULTS, range: 'last1000' }, 'svg', now), 'flametap-shop.py-7-cpu-last1000-20261128-0209.svg');
});
