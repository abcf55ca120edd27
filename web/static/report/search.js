// The search box's text → a predicate on functions, as profiler/tree/search.py for the server. Regular expressions are
// the browser's own here. No DOM.

const PREFIXED = /^(?:(module|file):(?!:))?(?:(re):(?!:))?(.*)$/s;

/** Returns a predicate on {name, full_name, module, file, kind}. Throws Error with a message for the user. */
export function compileSearch(text) {
  const [, field, isRegular, pattern] = PREFIXED.exec(text);
  const finds = isRegular ? regular(pattern) : plain(pattern);
  return (f) => {
    if (field) return f[field] !== '' && finds(f[field]);
    const texts = [f.name, f.full_name, f.kind === 'python' ? f.module : ''];
    return texts.some((each) => each !== '' && finds(each));
  };
}

function heedsCase(pattern) {
  return /\p{Lu}/u.test(pattern);
}

function plain(pattern) {
  if (heedsCase(pattern)) return (text) => text.includes(pattern);
  const folded = pattern.toLowerCase();
  return (text) => text.toLowerCase().includes(folded);
}

function regular(pattern) {
  let compiled;
  try {
    compiled = new RegExp(pattern, heedsCase(pattern) ? 'u' : 'iu');
  } catch (error) {
    throw new Error(`bad pattern: ${error.message.replace(/^Invalid regular expression: /, '')}`, { cause: error });
  }
  return (text) => compiled.test(text);
}
