// Functions, paths and threads by name, for URLs that work with another recording, too. profiler/tree/spelling.py says
// how they are spelt, and reads the same. No DOM.

const functions = new Map(); // id → {name, module, twin}, from all answers so far
const ids = new Map(); // spelling → id
const threads = new Map(); // our id → {name, tid}

/** Splits a text at a separator without a backslash before it; backslashes stay. */
export function split(text, separator) {
  const parts = [''];
  for (const piece of text.match(/\\[^]|[^\\]/g) ?? []) {
    if (piece === separator) parts.push('');
    else parts[parts.length - 1] += piece;
  }
  return parts;
}

export function plain(text) {
  return text.replace(/\\([^])/g, '$1');
}

export function quoted(text) {
  return text.replace(/^[?=]|[\\@;,]/g, '\\$&');
}

/** Returns how a function is spelt; without its twin mark, all functions of its name and module are meant. */
export function spellFunction({ name, module, twin = '' }) {
  const place = module || twin || /^[\d.]+$/.test(name) ? `@${quoted(module)}` : '';
  return `${quoted(name)}${place}${twin ? `@${twin}` : ''}`;
}

/** Returns the name and the module in a spelling. */
export function readFunction(spelling) {
  const [name, module = ''] = split(spelling, '@').map(plain);
  return { name, module };
}

/** Notes the functions of an answer: columns id, name, module, twin. */
export function learnFunctions({ id, name, module, twin = [] }) {
  id.forEach((each, at) => {
    const known = functions.get(each);
    if (known && known.twin === (twin[at] ?? '')) return;
    const f = { name: name[at], module: module[at], twin: twin[at] ?? '' };
    functions.set(each, f);
    ids.set(spellFunction(f), each);
  });
}

/** Notes threads: {thread_id, name, tid} each. */
export function learnThreads(list) {
  for (const { thread_id: id, name, tid } of list) threads.set(id, { name, tid });
}

/** Returns the part of a path up to the first function whose name is not known. */
export function namedPath(path) {
  const end = path.findIndex((each) => typeof each !== 'string' && !functions.has(each));
  return end < 0 ? path : path.slice(0, end);
}

/** Returns the name of an element of a path: of a function's id, or of a spelling. */
export function labelOf(element) {
  if (typeof element === 'string') return readFunction(element).name;
  return functions.get(element)?.name ?? '…';
}

/** Returns a path in words: spellings, or ids of functions that are not known yet. */
export function spellPath(path) {
  if (!path.some((each) => typeof each === 'string' || functions.has(each))) return path.join('.');
  return path
    .map((each) => (functions.has(each) ? spellFunction(functions.get(each)) : String(each)))
    .join(';');
}

/** Returns a path as short as a request needs it: ids, and spellings of functions without one here. */
export function pathIds(path) {
  return path.join(path.some((each) => typeof each === 'string') ? ';' : '.');
}

/** Parses a path: ids, and spellings of functions that are not known yet. */
export function parsePath(text) {
  if (/^\d+(\.\d+)*$/.test(text)) return text.split('.').map(Number);
  if (/^-?[\d.-]+$/.test(text)) return [];
  return split(text, ';').map((each) => (/^\d{1,10}$/.test(each) ? Number(each) : (ids.get(each) ?? each)));
}

const byNumber = (a, b) => (typeof a === 'number' ? a : Infinity) - (typeof b === 'number' ? b : Infinity) || 0;

const MAX_THREADS = 1 << 17;
const MAX_ID = 2 ** 32; // of threads: the server refuses others
const MAX_SPELLED = 16; // threads by name in a URL; more are ranges of ids

/** Parses threads: ids, ranges of them, and spellings NAME@TID; anything else means all threads. */
export function parseThreads(text) {
  const found = new Set();
  for (const part of split(text, ',')) {
    const [, first, last = first] = /^(\d{1,10})(?:-(\d{1,10}))?$/.exec(part) ?? [];
    if (first === undefined && /^[^]*@\d*$/.test(part)) found.add(part);
    else if (first === undefined || Number(last) >= MAX_ID || Number(last) - Number(first) > MAX_THREADS) return [];
    for (let id = Number(first); id <= Number(last) && found.size <= MAX_THREADS; id++) found.add(id);
  }
  return [...found].sort(byNumber);
}

/** Returns ascending ids as text, neighbours as a range: "1-8,12". */
export function formatIds(ids) {
  const parts = [];
  for (const id of ids) {
    const last = parts.at(-1);
    if (last && id === last[1] + 1) last[1] = id;
    else parts.push([id, id]);
  }
  return parts.map(([a, b]) => (a === b ? a : `${a}${b === a + 1 ? ',' : '-'}${b}`)).join(',');
}

/** Returns threads as short as a request needs them. */
export function askThreads(list) {
  return list.every(Number.isInteger) ? formatIds(list) : list.join(',');
}

/** Returns those threads that a URL has by name. */
export function namedThreads(list) {
  if (list.length > MAX_SPELLED) return [];
  return list.filter((each) => typeof each === 'string' || threads.has(each));
}

export function spellThreads(list) {
  if (list.length > MAX_SPELLED) return askThreads(list);
  return list
    .map((each) => {
      const known = threads.get(each);
      return known ? `${quoted(known.name)}@${known.tid}` : String(each);
    })
    .join(',');
}
