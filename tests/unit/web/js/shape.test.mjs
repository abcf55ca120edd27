import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as shape from '../../../../web/static/model/shape.js';

test('steps are added once, taken back, and one way of looking replaces another', () => {
  let steps = shape.addStep([], 'hide:a@m');
  steps = shape.addStep(steps, 'chains');
  steps = shape.addStep(steps, 'hide:a@m');
  assert.deepEqual(steps, ['chains', 'hide:a@m']);
  steps = shape.addStep(shape.addStep(steps, 'focus:b@m'), 'inverted');
  assert.deepEqual(steps, ['chains', 'hide:a@m', 'inverted']);
  assert.deepEqual(shape.toggleStep(steps, 'chains'), ['hide:a@m', 'inverted']);
  assert.deepEqual(shape.halfSteps(steps, 'callers', 'x@m'), ['hide:a@m', 'callers:x@m']);
});

test('each step is told in words', () => {
  assert.deepEqual(shape.describeStep('hide:std::map<a\\\\;b>@lib.so').target, 'std::map<a\\;b>');
  assert.equal(shape.describeStep('fold:@libc.so.6').target, 'libc.so.6');
  assert.equal(shape.describeStep('fold:=library').target, 'libraries');
  assert.equal(shape.describeStep(`only:${shape.searchTarget('re:^a;b')}`).target, '“re:^a;b”');
  assert.equal(shape.describeStep('chains').target, '');
});

test('unknown steps in a URL are left out', () => {
  assert.deepEqual(shape.parseSteps('hide:a\\;b@m;dance:c;chains'), ['hide:a\\;b@m', 'chains']);
  assert.deepEqual(shape.parseSteps(''), []);
});
