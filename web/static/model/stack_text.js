// A stack as text, as debuggers print it: the innermost function first. No DOM.

import { formatPlace, formatShare } from './format.js';
import { formatWeight } from './weight.js';

/** Returns the stack of a box of a view, with the box's weight in the first line. */
export function stackText(view, box) {
  const total = view.boxes.total_ns[box];
  const lines = [`${formatWeight(total)}, ${formatShare(total, view.total_ns)} of all`];
  for (let at = box; at > 0; at = view.boxes.parent[at]) {
    const f = view.functionOf(at);
    if (!f) continue;
    const place = formatPlace(view.lineFileOf(at), view.boxes.line[at]);
    lines.push(['  ', f.name, f.module && ` (${[f.module, place].filter(Boolean).join(', ')})`].join(''));
  }
  return `${lines.join('\n')}\n`;
}

/** Returns rows of the tree table as text, indented: total, self, function. */
export function rowsText(rows, wholeNs) {
  const column = (ns) => formatShare(ns, wholeNs).padStart(8);
  const lines = rows.map(({ level, totalNs, selfNs, name, module }) => {
    const place = module ? ` (${module})` : '';
    return `${column(totalNs)} ${column(selfNs)}  ${'  '.repeat(level - 1)}${name}${place}`;
  });
  return [`${'total'.padStart(8)} ${'self'.padStart(8)}  function`, ...lines, ''].join('\n');
}

/** Returns the stack of a row of the tree table as text. */
export function pathText(row, rows, wholeNs) {
  const byKey = new Map(rows.map((each) => [each.key, each]));
  const names = row.path.map((_, at) => {
    const found = byKey.get(row.path.slice(0, at + 1).join('.'));
    return found ? `  ${found.name}${found.module ? ` (${found.module})` : ''}` : '  …';
  });
  const head = `${formatWeight(row.totalNs)}, ${formatShare(row.totalNs, wholeNs)} of all`;
  return `${[head, ...names.reverse()].join('\n')}\n`;
}
