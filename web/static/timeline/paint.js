// Draws the timeline on canvases: the CPU time of the whole recording, lanes, the time axis, and the chosen ranges.
// Each activity has a colour and a pattern, for people who see few hues.

import { oklch } from '../model/color.js';
import { ACTIVITIES, formatMoment, ticks } from '../model/timeline.js';
import { LaneRaster } from './raster.js';

// Lightness, chroma, hue of the ground and of the pattern. What needs no attention is pale.
const SHADES = {
  light: {
    cpu: [[0.72, 0.145, 52], null],
    queued: [[0.89, 0.06, 28], [0.6, 0.18, 27]],
    lock: [[0.915, 0.04, 335], [0.72, 0.1, 335]],
    io: [[0.915, 0.035, 240], [0.72, 0.085, 243]],
    other: [[0.935, 0.018, 110], [0.79, 0.04, 110]],
    work: [[0.95, 0.018, 165], [0.84, 0.04, 165]],
    poll: [[0.955, 0.012, 240], [0.87, 0.025, 240]],
    sleep: [[0.955, 0.004, 260], null],
  },
  dark: {
    cpu: [[0.66, 0.14, 52], null],
    queued: [[0.34, 0.07, 27], [0.62, 0.17, 27]],
    lock: [[0.29, 0.045, 335], [0.47, 0.095, 335]],
    io: [[0.29, 0.04, 245], [0.47, 0.085, 242]],
    other: [[0.275, 0.015, 110], [0.4, 0.03, 110]],
    work: [[0.25, 0.018, 165], [0.36, 0.035, 165]],
    poll: [[0.245, 0.012, 250], [0.33, 0.02, 250]],
    sleep: [[0.245, 0.004, 260], null],
  },
};
const TILE = 6; // device-independent pixels of a pattern
const WAITING_LINE = 5; // device-independent pixels, of the overview
const LEAST_WAITING = 0.25; // threads that wait for a CPU, on average, for a mark in that line

/** Draws one tile of an activity's pattern. */
function drawTile(context, activity, [ground, line]) {
  context.fillStyle = oklch(...ground);
  context.fillRect(0, 0, TILE, TILE);
  if (!line) return;
  context.strokeStyle = context.fillStyle = oklch(...line);
  context.lineWidth = 1.1;
  context.beginPath();
  if (activity === 'queued') {
    for (const x of [-TILE, 0, TILE]) context.moveTo(x, TILE), context.lineTo(x + TILE, 0);
  } else if (activity === 'lock') {
    for (const x of [-TILE, 0, TILE]) {
      context.moveTo(x, TILE), context.lineTo(x + TILE, 0);
      context.moveTo(x, 0), context.lineTo(x + TILE, TILE);
    }
  } else if (activity === 'io') {
    context.moveTo(0, 1.5), context.lineTo(TILE, 1.5);
    context.moveTo(0, 4.5), context.lineTo(TILE, 4.5);
  } else if (activity === 'other') {
    context.moveTo(1.5, 0), context.lineTo(1.5, TILE);
  } else if (activity === 'work') {
    context.fillRect(0, 1, 3, 1);
    context.fillRect(3, 4, 3, 1);
  } else {
    context.fillRect(1, 1, 1.4, 1.4);
    context.fillRect(4, 4, 1.4, 1.4);
  }
  context.stroke();
}

function ratio() {
  return window.devicePixelRatio || 1;
}

/** Resizes a canvas to device pixels and clears it. Returns a context in CSS pixels. */
function prepare(canvas, width, height) {
  const [w, h] = [Math.round(width * ratio()), Math.round(height * ratio())];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext('2d');
  context.setTransform(ratio(), 0, 0, ratio(), 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Draws a swatch of an activity, for the legend. */
export function drawSwatch(canvas, activity, theme) {
  const context = prepare(canvas, 2 * TILE, 2 * TILE);
  for (const x of [0, TILE]) {
    for (const y of [0, TILE]) {
      context.save();
      context.translate(x, y);
      context.beginPath();
      context.rect(0, 0, TILE, TILE);
      context.clip();
      drawTile(context, activity, SHADES[theme][activity]);
      context.restore();
    }
  }
}

// Colours of a heat map's cells: lightness, chroma of the weakest and of the strongest, and the hue of each activity.
const HEAT = {
  light: [[0.95, 0.03], [0.5, 0.19]],
  dark: [[0.27, 0.03], [0.76, 0.17]],
};
const HUES = { cpu: 48, queued: 27, lock: 335, io: 242, other: 110, work: 150, poll: 205, sleep: 285 };
const LEVELS = 51;

/** Returns [red, green, blue, alpha] of each level of each activity. */
export function heatColors(theme) {
  const [weak, strong] = HEAT[theme];
  const color = (hue, level) => {
    const share = level / (LEVELS - 1);
    const [lightness, chroma] = weak.map((each, at) => each + (strong[at] - each) * share);
    return [...oklch(lightness, chroma, hue).match(/\d+/g).map(Number), 255];
  };
  const levels = Array.from({ length: LEVELS }, (_, level) => level);
  return Object.fromEntries(Object.entries(HUES).map(([name, hue]) => [name, levels.map((level) => color(hue, level))]));
}

export class TimePainter {
  constructor(canvas, marks) {
    Object.assign(this, { canvas, marks });
    this.tilesFor = '';
  }

  /** @param style {theme, ink, muted, line, paper, focus, match, font} */
  setStyle(style) {
    this.style = style;
  }

  /** Returns the pattern of each activity, in device pixels. */
  makeTiles() {
    if (this.tilesFor === `${this.style.theme} ${ratio()}`) return this.tiles;
    const size = Math.max(1, Math.round(TILE * ratio()));
    const canvas = new OffscreenCanvas(size, size);
    const context = canvas.getContext('2d', { willReadFrequently: true });
    context.scale(size / TILE, size / TILE);
    this.tiles = {};
    for (const activity of ACTIVITIES) {
      drawTile(context, activity, SHADES[this.style.theme][activity]);
      const pixels = new Uint32Array(context.getImageData(0, 0, size, size).data.buffer);
      this.tiles[activity] = { size, pixels };
    }
    this.tilesFor = `${this.style.theme} ${ratio()}`;
    return this.tiles;
  }

  /** @param scene {width, height, rows: [{kind, lane, bins, top, height}], shown, whole, axisTop} */
  draw(scene) {
    const context = prepare(this.canvas, scene.width, scene.height);
    const raster = new LaneRaster(this.canvas.width, this.canvas.height, this.makeTiles());
    const pixels = (length) => Math.round(length * ratio());
    for (const { kind, lane, bins, top, height } of scene.rows) {
      const row = { lane, bins, top: pixels(top), height: pixels(height) };
      if (lane && kind === 'overview') this.drawOverview(raster, row, scene.whole);
      else if (lane) raster.draw(row, scene.shown);
    }
    context.putImageData(raster.picture, 0, 0);
    context.globalCompositeOperation = 'destination-over';
    this.drawAxis(context, scene);
    context.globalCompositeOperation = 'source-over';
  }

  /** Draws the CPU time of the whole recording, and a line at the top where threads wait for a CPU. */
  drawOverview(raster, { lane, bins, top, height }, span) {
    const line = Math.round(WAITING_LINE * ratio());
    const below = { top: top + line, height: height - line };
    raster.draw({ lane, bins, ...below }, span, ['cpu']);
    const shares = { queued: lane.where('queued', (LEAST_WAITING * bins.step * 1e6) / lane.scale_ns) };
    raster.draw({ lane: { shares }, bins, top, height: line - 1 }, span);
  }

  drawAxis(context, { width, height, shown, axisTop, axisHeight }) {
    const { at, stepMs } = ticks(shown, width);
    context.font = this.style.font;
    context.textBaseline = 'middle';
    for (const ms of at) {
      const x = Math.round(((ms - shown.from) / (shown.to - shown.from)) * width);
      context.fillStyle = this.style.line;
      context.fillRect(x, axisTop + axisHeight - 4, 1, height - axisTop);
      context.fillStyle = this.style.muted;
      const text = formatMoment(ms, stepMs);
      if (x + context.measureText(text).width + 4 < width) context.fillText(text, x + 4, axisTop + axisHeight / 2);
    }
  }

  /**
   * Draws what moves with the pointer: ranges, and a line at the pointer.
   *
   * @param scene as for draw; @param ranges [{from, to, kind}], kind "range", "compare" or "drag"; @param at ms or null
   */
  drawMarks(scene, ranges, at) {
    const context = prepare(this.marks, scene.width, scene.height);
    const bands = [
      { top: scene.overviewTop, bottom: scene.axisTop, span: scene.whole },
      { top: scene.axisTop, bottom: scene.height, span: scene.shown },
    ];
    for (const { top, bottom, span } of bands) {
      const x = (ms) => Math.min(scene.width, Math.max(0, ((ms - span.from) / (span.to - span.from)) * scene.width));
      const main = ranges.find(({ kind }) => kind !== 'compare');
      if (main) {
        context.globalAlpha = 0.62;
        context.fillStyle = this.style.paper;
        const other = ranges.find(({ kind }) => kind === 'compare');
        const clear = [main, ...(other ? [other] : [])].sort((a, b) => a.from - b.from);
        let left = 0;
        for (const each of clear) {
          context.fillRect(left, top, Math.max(0, x(each.from) - left), bottom - top);
          left = Math.max(left, x(each.to));
        }
        context.fillRect(left, top, scene.width - left, bottom - top);
        context.globalAlpha = 1;
      }
      for (const { from, to, kind } of ranges) {
        if (to < span.from || from > span.to) continue;
        context.strokeStyle = kind === 'compare' ? this.style.match : this.style.focus;
        context.lineWidth = 1.5;
        context.setLineDash(kind === 'compare' ? [4, 3] : []);
        context.strokeRect(x(from) + 0.75, top + 0.75, Math.max(1, x(to) - x(from) - 1.5), bottom - top - 1.5);
        context.setLineDash([]);
      }
      if (at !== null && at >= span.from && at <= span.to) {
        context.fillStyle = this.style.ink;
        context.globalAlpha = 0.45;
        context.fillRect(Math.round(x(at)), top, 1, bottom - top);
        context.globalAlpha = 1;
      }
    }
    const { whole, shown } = scene;
    if (shown.to - shown.from < 0.999 * (whole.to - whole.from)) {
      // The part of the recording that the lanes show.
      const x = (ms) => ((ms - whole.from) / (whole.to - whole.from)) * scene.width;
      context.fillStyle = this.style.muted;
      context.fillRect(x(shown.from), scene.axisTop - 2, Math.max(3, x(shown.to) - x(shown.from)), 2);
    }
  }
}
