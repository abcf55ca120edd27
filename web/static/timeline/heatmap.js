// The heat map below the lanes, in their time: either the CPUs busy in each second (a column is a second, from its start
// at the bottom to its end at the top), or the waits of threads by how long they lasted.

import { byId, choice, setText } from '../page/dom.js';
import { fetchJson } from '../server/connection.js';
import { ACTIVITY_WORDS, formatMoment } from '../model/timeline.js';
import { Heat, cellRange, formatWaitRow, waitTicks } from '../model/heat.js';
import { heatColors } from './paint.js';

const ROW_PX = 2;
const GAP_MS = 2000;

export class HeatMap {
  /**
   * @param on {view(): {from, to}, shown(): {from, to} | null, threads(): as requests have them, drag(from, to, isCompare), choose(isChosen),
   *   click(), hover(ms | null), open(kind), drawn()}
   */
  constructor(on) {
    this.on = on;
    this.root = byId('heat');
    this.plot = byId('heat-plot');
    this.canvas = byId('heat-cells');
    this.marks = byId('heat-marks');
    this.kind = ''; // '' is closed
    this.heat = null;
    this.nextAt = 0;
    this.timer = 0;
    this.underWay = new AbortController();
    this.start = null; // where a drag began
    this.showKind = choice(byId('heat-kind'), (kind) => this.on.open(kind));
    byId('heat-button').addEventListener('click', () => this.on.open(this.kind ? '' : 'cpu'));
    this.listen();
  }

  listen() {
    const { plot } = this;
    plot.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || !this.heat) return;
      plot.setPointerCapture(event.pointerId);
      this.start = { ...this.point(event), isCompare: event.shiftKey, hasMoved: false };
    });
    plot.addEventListener('pointermove', (event) => {
      const point = this.point(event);
      this.hover(point);
      const { start } = this;
      if (!start) return;
      start.hasMoved ||= Math.hypot(point.x - start.x, point.y - start.y) >= 4;
      if (start.hasMoved) this.drag(point);
    });
    plot.addEventListener('pointerup', () => {
      const { start } = this;
      this.start = null;
      if (!start) return;
      if (start.hasMoved) this.on.choose(true);
      else this.on.click();
    });
    plot.addEventListener('pointercancel', () => {
      this.start = null;
      this.on.choose(false);
    });
    plot.addEventListener('pointerleave', () => {
      this.on.hover(null);
      setText(byId('heat-text'), '');
    });
  }

  point(event) {
    const box = this.plot.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  /** Returns the cell at a point of the plot. */
  cell({ x, y }) {
    const { heat } = this;
    const { from, to } = this.on.view();
    const ms = from + (x / this.plot.clientWidth) * (to - from);
    const row = heat.rows - 1 - Math.floor((y / this.plot.clientHeight) * heat.rows);
    return { ms, column: heat.column(ms), row: Math.min(heat.rows - 1, Math.max(0, row)) };
  }

  drag(point) {
    const [a, b] = [this.cell(this.start), this.cell(point)];
    const { from, to } = this.kind === 'cpu' ? cellRange(this.heat, a, b) : { from: a.ms, to: b.ms };
    this.on.drag(from, to, this.start.isCompare);
  }

  hover(point) {
    if (!this.heat) return;
    const { ms, column, row } = this.cell(point);
    this.on.hover(this.kind === 'cpu' ? null : ms);
    setText(byId('heat-text'), this.describe(column, row));
  }

  describe(column, row) {
    const { heat } = this;
    if (column === null) return '';
    if (this.kind === 'cpu') {
      const { from } = cellRange(heat, { column, row }, { column, row });
      const seconds = heat.step > 1000 ? ` (average of ${heat.step / 1000} seconds)` : '';
      return `${formatMoment(from, 10)}: ${heat.value('cpu', column, row).toFixed(1)} CPUs busy${seconds}`;
    }
    const causes = heat.causes(column, row);
    if (!causes.length) return '';
    const said = causes.slice(0, 3).map(([activity, count]) => `${count} ${ACTIVITY_WORDS[activity]}`);
    return `${formatMoment(heat.left(column), heat.step)}, ${formatWaitRow(row)}: ${said.join(', ')}`;
  }

  /** Shows a kind of heat map; '' for none. */
  open(kind) {
    if (kind === this.kind) return;
    this.kind = kind;
    this.heat = null;
    this.root.hidden = kind === '';
    byId('heat-button').setAttribute('aria-expanded', String(kind !== ''));
    this.showKind(kind);
    for (const each of ['cpu', 'waits']) byId(`heat-axis-${each}`).hidden = each !== kind;
    setText(byId('heat-text'), '');
    this.request();
  }

  /** Notes that there is newer data. */
  news() {
    if (!this.kind || this.timer || document.hidden) return;
    this.timer = setTimeout(() => this.request(), Math.max(0, this.nextAt - performance.now()));
  }

  async request() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (!this.kind) return;
    this.underWay.abort();
    this.underWay = new AbortController();
    const { signal } = this.underWay;
    const columns = Math.max(20, Math.min(720, Math.round(this.plot.clientWidth / 3)));
    const query = new URLSearchParams({ kind: this.kind, columns });
    const shown = this.on.shown();
    if (shown) query.set('from', Math.floor(shown.from));
    if (shown) query.set('to', Math.ceil(shown.to));
    const threads = this.on.threads();
    if (threads) query.set('threads', threads);
    const began = performance.now();
    this.nextAt = began + GAP_MS;
    try {
      const answer = await fetchJson(`heat?${query}`, { signal });
      if (signal.aborted) return;
      this.heat = new Heat(answer);
      this.draw();
      this.on.drawn();
    } catch {
      // The next news ask again.
    }
    this.nextAt = Math.max(this.nextAt, performance.now() + 2 * (performance.now() - began));
  }

  /** @param style see TimePainter */
  setStyle(style) {
    this.style = style;
    this.colors = heatColors(style.theme);
    this.draw();
  }

  /** Draws each cell as one pixel, and scales the picture to the plot. */
  draw() {
    const { heat, canvas, colors } = this;
    if (!heat || !colors || !this.plot.clientWidth) return;
    this.plot.style.height = `${ROW_PX * heat.rows}px`;
    const isCpu = this.kind === 'cpu';
    const { shades, from: darkest } = isCpu ? heat.shades() : {};
    if (isCpu) setText(byId('heat-darkest'), darkest ? `${darkest.toFixed(1)} or more` : '–');
    const cells = new OffscreenCanvas(heat.columns, heat.rows);
    const picture = new ImageData(heat.columns, heat.rows);
    for (let column = 0; column < heat.columns; column++) {
      for (let row = 0; row < heat.rows; row++) {
        const [activity, level] = heat.top(column, row);
        if (!level) continue;
        const at = 4 * ((heat.rows - 1 - row) * heat.columns + column);
        picture.data.set(colors[activity][isCpu ? shades[level] : level], at);
      }
    }
    cells.getContext('2d').putImageData(picture, 0, 0);
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(this.plot.clientWidth * ratio), Math.round(ROW_PX * heat.rows * ratio)];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext('2d');
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    const { from, to } = this.on.view();
    const scale = width / (to - from);
    const left = (heat.left(0) - from) * scale;
    context.drawImage(cells, left, 0, heat.step * heat.columns * scale, height);
    if (this.kind === 'waits') this.drawDurations(context, width, height, ratio);
  }

  /** Names some durations at the left edge. */
  drawDurations(context, width, height, ratio) {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = this.style.font;
    context.textBaseline = 'bottom';
    for (const [label, share] of waitTicks(this.heat.rows)) {
      const y = Math.round(((1 - share) * height) / ratio) - (share ? 0 : 1);
      context.fillStyle = this.style.line;
      context.fillRect(0, y, width / ratio, 1);
      context.fillStyle = this.style.muted;
      context.fillText(label, 4, y);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  /** Draws the chosen ranges. @param ranges as for TimePainter; @param style its style */
  drawMarks(ranges, style) {
    const { heat, marks, canvas } = this;
    if (!heat || !style) return;
    if (marks.width !== canvas.width || marks.height !== canvas.height) {
      Object.assign(marks, { width: canvas.width, height: canvas.height });
    }
    const context = marks.getContext('2d');
    context.clearRect(0, 0, marks.width, marks.height);
    const { from, to } = this.on.view();
    const scale = marks.width / (to - from);
    for (const range of ranges) {
      context.strokeStyle = range.kind === 'compare' ? style.match : style.focus;
      context.lineWidth = 1.5 * (window.devicePixelRatio || 1);
      context.setLineDash(range.kind === 'compare' ? [6, 5] : []);
      for (const part of this.kind === 'cpu' ? heat.parts(range) : [{ from: range.from, to: range.to, low: 0, high: 1 }]) {
        const [left, right] = [(part.from - from) * scale, (part.to - from) * scale];
        if (right < 0 || left > marks.width) continue;
        const [top, bottom] = [(1 - part.high) * marks.height, (1 - part.low) * marks.height];
        context.strokeRect(left + 1, top + 1, Math.max(2, right - left - 2), Math.max(2, bottom - top - 2));
      }
    }
  }
}
