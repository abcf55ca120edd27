// The view as a picture: all its rows, not only those in sight, as SVG or PNG.

import { Rows } from '../model/layout.js';
import { toSvg } from '../model/svg.js';
import { cssColor } from '../page/appearance.js';
import { Painter } from './draw.js';

const PADDING = 8;
const MAX_PX = 16_000; // a side of a canvas in common browsers

/** Returns the scene of the whole view, at the width of the graph. */
function wholeScene(graph) {
  const { view } = graph;
  const rows = new Rows({
    count: Math.min(view.deepest_row, view.last_row) + 1,
    rowHeight: graph.rows.rowHeight,
    viewHeight: 0,
    isFlame: graph.isFlame,
    padding: PADDING,
  });
  return {
    view,
    rows,
    viewport: graph.goal(),
    scrollTop: 0,
    width: Math.round(graph.width),
    height: Math.min(rows.height, MAX_PX),
    palette: graph.palette,
    focusColor: graph.focusColor,
    zoomRow: view.boxes.row[view.zoom.box],
    isSearching: view.search !== null && view.search.error === null,
    dims: graph.dims,
  };
}

export function svgOf(graph, title) {
  const context = document.createElement('canvas').getContext('2d');
  context.font = graph.painter.font;
  const scene = { ...wholeScene(graph), paper: cssColor('--paper'), title };
  const text = toSvg(scene, (character) => context.measureText(character).width);
  return new Blob([text], { type: 'image/svg+xml' });
}

export async function pngOf(graph) {
  const canvas = document.createElement('canvas');
  const painter = new Painter(canvas, canvas);
  painter.setFont(graph.painter.font);
  painter.drawBoxes(wholeScene(graph));
  const context = canvas.getContext('2d');
  context.globalCompositeOperation = 'destination-over';
  context.fillStyle = cssColor('--paper');
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillRect(0, 0, canvas.width, canvas.height);
  const blob = await new Promise((done) => canvas.toBlob(done, 'image/png'));
  if (!blob) throw new Error('the picture is too large');
  return blob;
}
