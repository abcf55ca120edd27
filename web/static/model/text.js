// Texts as they are shown: names come from the recorded process, and may hold anything. No DOM.

// What moves, hides or reorders other text: controls, marks of direction, and lone halves of characters.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]/gu;
const PLAIN = /^[\x20-\x7e]*$/;

/** Returns a text in which each character can be seen: U+202E, which would turn the rest around, is "‹202E›". */
export function visible(text) {
  const given = String(text);
  if (PLAIN.test(given)) return given;
  return given.replace(HIDDEN, (found) => {
    if (found === '\n' || found === '\t') return found;
    return `‹${found.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}›`;
  });
}

const segmenter = typeof Intl.Segmenter === 'function' ? new Intl.Segmenter() : null;

/** Splits a text into what people take for characters: an emoji of several code points is one. */
export function characters(text) {
  if (PLAIN.test(text)) return text.split('');
  return segmenter ? Array.from(segmenter.segment(text), ({ segment }) => segment) : Array.from(text);
}
