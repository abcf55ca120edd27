import assert from 'node:assert/strict';
import { test } from 'node:test';

import { characters, visible } from '../../../../web/static/model/text.js';

test('what would reorder, hide or break other text is shown by its number', () => {
  assert.equal(visible('user\u202egpj.exe'), 'user‹202E›gpj.exe');
  assert.equal(visible('a\u2066b\u2069\u200fc\u061c'), 'a‹2066›b‹2069›‹200F›c‹061C›');
  assert.equal(visible('a\u0000b\u001b[2J\u009b'), 'a‹0000›b‹001B›[2J‹009B›');
  assert.equal(visible('a\u2028b\u00adc\ufeff\u200b'), 'a‹2028›b‹00AD›c‹FEFF›‹200B›');
  assert.equal(visible('half \ud83d'), 'half ‹D83D›');
});

test('other text stays as it is', () => {
  for (const text of ['', 'std::vector<int>::push_back', 'größe', '関数', 'دالة', '12\u202f345 · 3 %', '\u{1f469}\u200d\u{1f467}', 'a\tb\nc']) {
    assert.equal(visible(text), text);
  }
  assert.equal(visible(12), '12');
});

test('characters are what people take for one', () => {
  assert.deepEqual(characters('abc'), ['a', 'b', 'c']);
  assert.deepEqual(characters('\u{1f469}\u200d\u{1f467}e\u0301'), ['\u{1f469}\u200d\u{1f467}', 'e\u0301']);
});
