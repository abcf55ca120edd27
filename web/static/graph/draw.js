// Draws boxes on two canvases: one for the boxes, and one above it for the outlines of the hovered and
// the selected box, so that moving the mouse does not redraw thousands of boxes.

import { isGuess, isQueued } from '../model/color.js';
import { ChangePaint } from './change_paint.js';
import { fitLabel } from '../model/layout.js';
import { formatCount } from '../model/format.js';

const LABEL_PADDING = 5;
const LEAST_LABEL_PX = 26; // the width of three letters
const STRIPES_PX = 6; // between the stripes of time spent waiting for a CPU, and of guesses

/** Resizes a canvas to device pixels and clears it. Returns a context in CSS pixels. */
function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  // A scroll bar takes its room from the graph, and covers none of it.
  if (canvas.style.width !== `${width}px`) canvas.style.width = `${width}px`;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

export class Painter {
  constructor(boxCanvas, markCanvas) {
    this.boxCanvas = boxCanvas;
    this.markCanvas = markCanvas;
    this.widths = new Map();
    this.font = '';
  }

  /** Returns the width of one character in the labels' font, in pixels. */
  widthOf(context, character) {
    let width = this.widths.get(character);
    if (width === undefined) {
      width = context.measureText(character).width;
      this.widths.set(character, width);
    }
    return width;
  }

  setFont(font) {
    if (font !== this.font) this.widths.clear();
    this.font = font;
  }

  /** Returns the left and right edge of a box in CSS pixels, snapped to device pixels and clipped to
   * the canvas; null if the box is not visible. */
  span({ view, viewport, width }, box) {
    const scale = width / viewport.width;
    const left = (view.left(box) - viewport.left) * scale;
    const right = left + view.width(box) * scale;
    if (right <= 0 || left >= width) return null;
    const ratio = window.devicePixelRatio || 1;
    const snap = (x) => Math.round(x * ratio) / ratio;
    const from = snap(Math.max(0, left));
    return [from, Math.max(from + 1 / ratio, snap(Math.min(width, right)))];
  }

  /**
   * Draws the visible rows.
   *
   * @param scene {view, viewport, rows, scrollTop, width, height, palette, zoomRow, isSearching, dims: what does not match}
   */
  drawBoxes(scene) {
    const { view, rows, scrollTop } = scene;
    this.learnColors(scene);
    const context = prepare(this.boxCanvas, scene.width, scene.height);
    context.font = this.font;
    context.textBaseline = 'middle';
    const widthOf = (character) => this.widthOf(context, character);
    const [firstRow, lastRow] = rows.range(scrollTop, scene.height);
    for (let row = firstRow; row <= lastRow; row++) {
      const [first, end] = view.rowRange(row);
      const top = rows.top(row) - scrollTop;
      for (let box = first; box < end; box++) {
        const span = this.span(scene, box);
        if (span) this.drawBox(context, scene, box, span, top, widthOf);
      }
    }
  }

  /** Looks up the colour of each function of the view once, not once per box. */
  learnColors({ view, palette }) {
    if (this.colorsOf === view && this.palette === palette) return;
    const { kind, module, name, origin } = view.functions;
    this.colors = name.map((_, at) =>
      palette.box({ kind: kind[at], module: module[at], name: name[at], origin: origin?.[at] }),
    );
    this.striped = name.map((_, at) => [isQueued, isGuess].some((is) => is({ kind: kind[at], name: name[at] })));
    this.change = view.comparison ? new ChangePaint(view, palette.theme) : null;
    this.colorsOf = view;
    this.palette = palette;
  }

  drawBox(context, scene, box, [left, right], top, widthOf) {
    const { view, rows, palette } = scene;
    const at = view.boxes.function[box]; // -1: the root, or a run of narrow boxes
    const isMatch = scene.isSearching && at >= 0 && view.functions.matches[at] === 1;
    const isRun = view.isRun(box);
    const isDimmed = scene.isSearching && scene.dims && !isMatch;
    const own = at >= 0 ? (this.change?.color(box) ?? this.colors[at]) : isRun ? palette.run : palette.root;
    let color = isMatch ? palette.match : own;
    if (isDimmed) color = palette.dimmed(color);
    else if (view.boxes.row[box] < scene.zoomRow && !isMatch) color = palette.ancestor(color);
    context.fillStyle = color;
    const width = right - left;
    // Leaves a hairline between neighbours, unless the box is too narrow for one.
    const drawn = [left, top, width > 2.5 ? width - 1 : width, rows.rowHeight - 1];
    context.fillRect(...drawn);
    if (at >= 0 && !isMatch) this.change?.stripe(context, box, drawn);
    if (at >= 0 && this.striped[at] && !this.change) this.stripe(context, ...drawn);
    if (width < LEAST_LABEL_PX) return;
    const name = at >= 0 ? this.nameOf(view, box) : isRun ? `${formatCount(view.boxes.hidden[box])} narrow` : 'all';
    const label = fitLabel(name, width - 2 * LABEL_PADDING, widthOf);
    if (!label) return;
    context.fillStyle = isMatch ? palette.matchText : isRun || isDimmed ? palette.quietText : palette.text;
    context.fillText(label, left + LABEL_PADDING, top + rows.rowHeight / 2);
  }

  /** Draws slanted stripes: a colour alone says nothing to who cannot see it. */
  stripe(context, left, top, width, height) {
    if (width < 2) return;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.beginPath();
    for (let x = left - height; x < left + width; x += STRIPES_PX) {
      context.moveTo(x, top + height);
      context.lineTo(x + height, top);
    }
    context.globalAlpha = 0.16;
    context.strokeStyle = '#000000';
    context.lineWidth = 1.5;
    context.stroke();
    context.restore();
  }

  nameOf(view, box) {
    const name = view.labelOf(box);
    return this.change?.label(box, name) ?? name;
  }

  /** Outlines the box under the pointer and the selected box. */
  drawMarks(scene, hovered, selected) {
    const context = prepare(this.markCanvas, scene.width, scene.height);
    // The selected box has two lines, which stand out from each other and so from any colour.
    for (const [box, color, lineWidth, inside] of [
      [hovered, scene.palette.text, 1.5, 0],
      [selected, scene.focusColor, 2.5, 0],
      [selected, scene.palette.paper, 1, 2.5],
    ]) {
      if (box === null) continue;
      const span = this.span(scene, box);
      if (!span) continue;
      const top = scene.rows.top(scene.view.boxes.row[box]) - scene.scrollTop;
      const [left, right] = span;
      const inset = inside + lineWidth / 2;
      context.strokeStyle = color;
      context.lineWidth = lineWidth;
      context.strokeRect(
        left + inset,
        top + inset,
        Math.max(0.5, right - left - 1 - 2 * inset),
        scene.rows.rowHeight - 1 - 2 * inset,
      );
    }
  }
}
