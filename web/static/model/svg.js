// The view as an SVG file: the boxes that the graph shows, with a title on each. It stands alone. No DOM.

import { fitLabel } from './layout.js';
import { formatCount, formatShare } from './format.js';
import { formatWeight } from './weight.js';

const LEAST_LABEL_PX = 26; // as on the canvas
const PADDING = 5;
const HEAD_PX = 34;
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const LEAST_PX = 0.3; // narrower boxes are left out

/** Returns text for XML: no markup, and none of the characters that XML 1.0 forbids. */
export function xml(text) {
  const escapes = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
    .replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd')
    .replace(/[&<>"]/g, (sign) => escapes[sign]);
}

const round = (value) => Number(value.toFixed(2));

/** Returns the fill of a box, and whether a search dims it. */
function look(view, box, palette) {
  const f = view.functionOf(box);
  if (f === null) return [view.isRun(box) ? palette.run : palette.root, 1];
  const isSearching = view.search !== null && view.search.error === null;
  if (isSearching && f.matches) return [palette.match, 1];
  return [palette.box(f), isSearching ? 0.35 : 1];
}

function labelOf(view, box) {
  if (view.isRun(box)) return `${formatCount(view.boxes.hidden[box])} narrow`;
  return view.functionOf(box)?.name ?? 'all';
}

/**
 * Returns the text of an SVG file.
 *
 * @param scene {view, viewport, rows, width, palette, paper, title}; rows: of the whole height
 * @param widthOf measures one character at 12 px
 */
export function toSvg({ view, viewport, rows, width, palette, paper, title }, widthOf) {
  const { boxes } = view;
  const height = rows.height + HEAD_PX;
  const scale = width / viewport.width;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"` +
      ` font-family="${xml(FONT)}" font-size="12">`,
    `<title>${xml(title)}</title>`,
    `<rect width="100%" height="100%" fill="${paper}"/>`,
    `<text x="${PADDING}" y="22" font-size="14" fill="${palette.text}">${xml(title)}</text>`,
  ];
  for (let box = 0; box < view.boxCount; box++) {
    const left = Math.max(0, (view.left(box) - viewport.left) * scale);
    const right = Math.min(width, (view.left(box) + view.width(box) - viewport.left) * scale);
    if (right - left < LEAST_PX) continue;
    const [fill, opacity] = look(view, box, palette);
    const top = rows.top(boxes.row[box]) + HEAD_PX;
    const boxWidth = right - left > 2.5 ? right - left - 1 : right - left;
    const name = labelOf(view, box);
    const share = formatShare(boxes.total_ns[box], view.total_ns);
    const label = right - left < LEAST_LABEL_PX ? '' : fitLabel(name, right - left - 2 * PADDING, widthOf);
    parts.push(
      `<g${opacity < 1 ? ` opacity="${opacity}"` : ''}>` +
        `<title>${xml(`${name}: ${formatWeight(boxes.total_ns[box])}, ${share}`)}</title>` +
        `<rect x="${round(left)}" y="${round(top)}" width="${round(boxWidth)}" height="${rows.rowHeight - 1}" fill="${fill}"/>` +
        (label
          ? `<text x="${round(left + PADDING)}" y="${round(top + rows.rowHeight / 2 + 4)}" fill="${palette.text}">${xml(label)}</text>`
          : '') +
        '</g>',
    );
  }
  parts.push('</svg>', '');
  return parts.join('\n');
}
