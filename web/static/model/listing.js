// Makes the rows of a listing from the server's answers about code. No DOM.

import { formatPlace, formatShare } from './format.js';

const LEAST_SELF = 0.1; // of a function's total: with less, its calls are what it costs

/** Returns the weights by which the rows of an answer are hot: their own, or those of a function that only calls. */
function hotnessOf({ self_ns: selfNs, total_ns: totalNs }, wholeNs) {
  const own = selfNs.reduce((sum, ns) => sum + ns, 0);
  const weights = own < LEAST_SELF * wholeNs ? totalNs : selfNs;
  const hottest = most(weights);
  return (at) => (hottest > 0 ? weights[at] / hottest : 0);
}

/** Makes a row: {kind: "code" | "gap" | "file" | "unknown", key, self, total, heat (0 … 1), place, text, note}. */
function weighed(row, selfNs, totalNs, wholeNs, heat) {
  return {
    ...row,
    self: selfNs > 0 ? formatShare(selfNs, wholeNs) : '',
    total: totalNs > 0 ? formatShare(totalNs, wholeNs) : '',
    heat,
    selfNs,
    totalNs,
  };
}

const most = (numbers) => numbers.reduce((a, b) => Math.max(a, b), 0);

/** Makes the heading of a file's lines. It shows a share, but has no weight, so N does not stop there. */
function fileRow(lines, number, path, wholeNs) {
  const selfNs = lines.self_ns.reduce((sum, ns, at) => sum + (lines.file[at] === number ? ns : 0), 0);
  const self = selfNs > 0 ? formatShare(selfNs, wholeNs) : '';
  const row = { kind: 'file', key: `file ${number}`, place: '', text: path || 'unknown file', note: '' };
  return { ...weighed(row, 0, 0, wholeNs, 0), self };
}

/**
 * Makes the rows of an answer to `lines`. Shares are of the function's total. If there are lines in
 * other files than the function's own, each file has a heading.
 */
export function sourceRows({ file: ownFile, files, lines, total_ns: wholeNs }) {
  const heat = hotnessOf(lines, wholeNs);
  const hasHeadings = files.some((file) => file !== ownFile);
  const rows = [];
  lines.line.forEach((line, at) => {
    const number = lines.file[at];
    const isFirst = at === 0 || lines.file[at - 1] !== number;
    if (isFirst && hasHeadings) rows.push(fileRow(lines, number, files[number], wholeNs));
    const before = isFirst ? 0 : lines.line[at - 1];
    if (before > 0 && line > before + 1) rows.push({ kind: 'gap', key: `gap ${number} ${line}` });
    const row = line
      ? { kind: 'code', key: `line ${number} ${line}`, place: String(line), text: lines.text[at] ?? '', note: '' }
      : { kind: 'unknown', key: `line ${number} 0`, place: '?', text: 'unknown line', note: '' };
    rows.push(weighed(row, lines.self_ns[at], lines.total_ns[at], wholeNs, heat(at)));
  });
  return rows;
}

/** Makes the rows of an answer to `instructions`. */
export function codeRows({ rows: code, files, names, total_ns: wholeNs }) {
  const heat = hotnessOf(code, wholeNs);
  const rows = [];
  let end = null;
  code.addr.forEach((addr, at) => {
    const start = BigInt(`0x${addr}`);
    if (end !== null && start !== end) rows.push({ kind: 'gap', key: `gap ${addr}` });
    end = start + BigInt((code.data[at].length + 1) / 3);
    const target = code.target[at] ? ` <${code.target[at]}>` : '';
    const file = code.file[at] < 0 ? '' : files[code.file[at]];
    const inlined = code.inlined[at] < 0 ? '' : names[code.inlined[at]];
    const row = {
      kind: 'code',
      key: addr,
      place: addr,
      text: code.text[at] + target,
      bytes: code.data[at],
      note: [inlined, formatPlace(file, code.line[at])].filter(Boolean).join(' · '),
    };
    rows.push(weighed(row, code.self_ns[at], code.total_ns[at], wholeNs, heat(at)));
  });
  return rows;
}

/** Returns the hottest row, or else the one with the most total weight; -1 if there is none. */
export function hottestRow(rows) {
  let best = -1;
  rows.forEach((row, at) => {
    const isHotter = (a, b) => a.heat > b.heat || (a.heat === b.heat && a.totalNs > b.totalNs);
    if ((row.selfNs || row.totalNs) && (best < 0 || isHotter(row, rows[best]))) best = at;
  });
  return best;
}

/** Returns the next hot row in a direction (1 or -1), from row `at`; -1 if there is none. */
export function nextHot(rows, at, direction) {
  for (let next = at + direction; next >= 0 && next < rows.length; next += direction) {
    if (rows[next].heat > 0) return next;
  }
  return -1;
}

/** Returns the visible rows and `more` on each side: [first, one past the last]. */
export function rowsInSight(count, rowHeight, scrollTop, viewHeight, more = 12) {
  const first = Math.floor(scrollTop / rowHeight) - more;
  const end = Math.ceil((scrollTop + viewHeight) / rowHeight) + more;
  return [Math.max(0, Math.min(first, count)), Math.max(0, Math.min(end, count))];
}
