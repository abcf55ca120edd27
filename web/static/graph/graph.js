// The flame graph as a component: a scrolled area above two canvases. The canvases are only as large
// as the visible part. Zooming uses the boxes at hand without waiting for the server. After every
// update, the hovered and the selected box are found again.

import { Rows, WHOLE, blend } from '../model/layout.js';
import { rem } from '../page/appearance.js';
import { Painter } from './draw.js';

const ZOOM_MS = 200;
const NARROWEST_REVEAL_PX = 3; // a search match narrower than this is zoomed to
const CLICK_PX = 6; // the pointer moves at most so far between the press and the release of a click
const NEAR_PX = 3; // how near to a narrow run the pointer has to be

export class Graph {
  /**
   * @param parts {scroller, spacer, boxCanvas, markCanvas}
   * @param on {zoom(path, run), point(info | null), needRow(row)}; info: {box, isDocked},
   *   with x, y of the mouse, or if docked {path, isLow}
   */
  constructor(parts, on) {
    Object.assign(this, parts);
    this.on = on;
    this.painter = new Painter(parts.boxCanvas, parts.markCanvas);
    this.view = null;
    this.viewport = WHOLE;
    this.animation = null; // {from, startedAt}
    this.isFlame = true;
    this.palette = null;
    this.dims = true; // while searching: what does not match
    this.hovered = null;
    this.pointer = null; // {x, y, clientX, clientY} while the mouse is over the graph
    this.selectedPath = null; // chosen by keyboard, touch or search
    this.selectedRun = ''; // if that is a run of narrow boxes below selectedPath: which
    this.pressed = null; // where the pointer was pressed
    this.fromRoot = 0; // pixels that the root's edge is scrolled out of view
    this.frame = 0;
    this.drawMs = 0; // duration of the last drawing
    this.listen();
  }

  // --- view ------------------------------------------------------------------------------------

  setTheme(palette, font, focusColor) {
    this.palette = palette;
    this.focusColor = focusColor;
    this.painter.setFont(font);
    this.redraw();
  }

  setFlame(isFlame) {
    this.isFlame = isFlame;
    this.fromRoot = 0;
    this.layOut();
  }

  /** Shows another view; keeps the scroll position unless `isNewPlace`. */
  setView(view, isNewPlace) {
    this.view = view;
    this.zoomBox = view.zoom.box;
    this.isZoomedToRun = Boolean(view.zoom.run);
    if (!this.animation) this.viewport = this.goal();
    this.layOut();
    if (isNewPlace) this.showRow(view.boxes.row[this.zoomBox]);
  }

  /** Zooms within the present view; the view requested meanwhile will have more detail. */
  zoomTo(path, run = '') {
    const box = this.view?.find(path, run) ?? this.view?.find(path) ?? null;
    if (box === null) return;
    const from = this.viewport;
    this.zoomBox = box;
    this.isZoomedToRun = false;
    const isStill = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.animation = isStill ? null : { from, startedAt: performance.now() };
    if (isStill) this.viewport = this.goal();
    this.showRow(this.view.boxes.row[box]);
    this.redraw();
  }

  /** Selects the box at the end of a path. Returns false if it is not in the view, or too narrow. */
  reveal(path) {
    const box = this.view?.find(path) ?? null;
    this.selectedPath = path;
    this.selectedRun = '';
    const widthPx = box === null ? 0 : (this.view.width(box) / this.goal().width) * this.width;
    if (widthPx < NARROWEST_REVEAL_PX) return false;
    this.select(box);
    return true;
  }

  select(box) {
    this.selectedPath = box === null ? null : this.view.pathOf(box);
    this.selectedRun = box === null ? '' : this.view.runOf(box);
    if (box !== null) this.showRow(this.view.boxes.row[box]);
    this.redraw();
    this.pointAtSelected();
  }

  /** Returns the selected box of the present view; null if there is none. */
  selected() {
    return this.selectedPath && this.view ? this.view.find(this.selectedPath, this.selectedRun) : null;
  }

  /** Returns the box that is hovered, else selected, else zoomed to; null if there is none. */
  current() {
    return this.hovered ?? this.selected() ?? (this.view ? this.zoomBox : null);
  }

  /** Returns a place below the left end of a box, in the window; a place in the middle if it is not visible. */
  placeOf(box) {
    const area = this.scroller.getBoundingClientRect();
    const span = this.scene ? this.painter.span(this.scene, box) : null;
    if (!span) return { x: area.left + area.width / 2, y: area.top + area.height / 2 };
    const top = this.rows.top(this.view.boxes.row[box]) - this.scroller.scrollTop;
    const y = Math.max(0, Math.min(area.height, top + this.rows.rowHeight));
    return { x: area.left + span[0] + Math.min(40, (span[1] - span[0]) / 2), y: area.top + y };
  }

  // --- geometry --------------------------------------------------------------------------------

  get width() {
    return this.scroller.clientWidth;
  }

  get height() {
    return this.scroller.clientHeight;
  }

  goal() {
    return this.isZoomedToRun ? this.view.zoomed : this.view.viewportOf(this.zoomBox);
  }

  layOut() {
    if (!this.view) return;
    const coarse = window.matchMedia('(pointer: coarse)').matches;
    this.rows = new Rows({
      count: this.view.deepest_row + 1,
      rowHeight: Math.round((coarse ? 26 : 22) * rem()),
      viewHeight: this.height,
      isFlame: this.isFlame,
      padding: 8,
    });
    this.spacer.style.height = `${this.rows.height}px`;
    this.setScroll(this.fromRoot);
    this.redraw();
  }

  /** Scrolls to a distance from the root's edge, which stays the same when the graph gets deeper. */
  setScroll(fromRoot) {
    const most = Math.max(0, this.rows.height - this.height);
    this.fromRoot = Math.max(0, Math.min(most, fromRoot));
    const wanted = this.isFlame ? most - this.fromRoot : this.fromRoot;
    if (Math.abs(this.scroller.scrollTop - wanted) >= 1) this.scroller.scrollTop = wanted;
  }

  showRow(row) {
    const top = this.rows.scrollTo(row, this.scroller.scrollTop, this.height);
    this.scroller.scrollTop = top;
    this.readScroll();
  }

  readScroll() {
    const most = Math.max(0, this.rows.height - this.height);
    const top = this.scroller.scrollTop;
    this.fromRoot = this.isFlame ? most - top : top;
  }

  boxAt(x, y) {
    const row = this.rows.rowAt(y + this.scroller.scrollTop);
    const scale = this.viewport.width / this.width;
    return this.view.hit(row, this.viewport.left + x * scale, NEAR_PX * scale);
  }

  /** Returns middle and width of the first box with a name, in page coordinates; null if it is not
   * visible, or nothing is drawn yet. */
  locate(name) {
    const at = this.view.functions.name.indexOf(name);
    return this.middleOf(at < 0 ? -1 : this.view.boxes.function.indexOf(at));
  }

  /** Returns middle and width of a box, as locate() does. */
  middleOf(box) {
    const span = box < 0 || !this.scene ? null : this.painter.span(this.scene, box);
    if (!span) return null;
    const area = this.scroller.getBoundingClientRect();
    const top = this.rows.top(this.view.boxes.row[box]) - this.scroller.scrollTop;
    return {
      x: area.left + (span[0] + span[1]) / 2,
      y: area.top + top + this.rows.rowHeight / 2,
      width: span[1] - span[0],
    };
  }

  // --- drawing ---------------------------------------------------------------------------------

  redraw() {
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.draw(now));
  }

  draw(now) {
    this.frame = 0;
    if (!this.view || !this.palette || !this.width) return;
    const began = performance.now();
    if (this.animation) {
      const done = Math.min(1, Math.max(0, (now - this.animation.startedAt) / ZOOM_MS));
      this.viewport = blend(this.animation.from, this.goal(), done);
      if (done < 1) this.redraw();
      else this.animation = null;
    }
    this.scene = {
      view: this.view,
      viewport: this.viewport,
      rows: this.rows,
      scrollTop: this.scroller.scrollTop,
      width: this.width,
      height: this.height,
      palette: this.palette,
      focusColor: this.focusColor,
      zoomRow: this.view.boxes.row[this.zoomBox],
      isSearching: this.view.search !== null && this.view.search.error === null,
      dims: this.dims,
    };
    this.painter.drawBoxes(this.scene);
    this.pointAgain();
    this.drawMs = performance.now() - began;
    const [, deepest] = this.rows.range(this.scroller.scrollTop, this.height);
    this.on.needRow(deepest);
  }

  drawMarks() {
    if (this.scene) this.painter.drawMarks(this.scene, this.hovered, this.selected());
  }

  // --- pointing --------------------------------------------------------------------------------

  /** Finds the box under the mouse again: the graph may have changed below it. */
  pointAgain() {
    if (this.pointer) {
      this.hovered = this.boxAt(this.pointer.x, this.pointer.y);
      this.tell();
    } else {
      this.hovered = null;
      this.pointAtSelected();
    }
    this.drawMarks();
  }

  tell() {
    const { clientX, clientY } = this.pointer;
    this.scroller.classList.toggle('can-zoom', this.hovered !== null);
    this.on.point(
      this.hovered === null ? null : { box: this.hovered, x: clientX, y: clientY, isDocked: false },
    );
  }

  pointAtSelected() {
    if (this.pointer) return;
    const box = this.selected();
    if (box === null) return this.on.point(null);
    const y = this.rows.top(this.view.boxes.row[box]) - this.scroller.scrollTop;
    const path = `${this.selectedPath} ${this.selectedRun}`;
    this.on.point({ box, path, isLow: y > this.height / 2, isDocked: true });
  }

  /** Ignores the mouse until it moves again. */
  forgetPointer() {
    if (!this.pointer) return;
    this.pointer = null;
    this.hovered = null;
    this.scroller.classList.remove('can-zoom');
    this.drawMarks();
    this.on.point(null);
    this.pointAtSelected();
  }

  listen() {
    const { scroller } = this;
    scroller.addEventListener('scroll', () => {
      if (!this.rows) return;
      this.readScroll();
      this.redraw();
    });
    scroller.addEventListener('pointermove', (event) => {
      if (event.pointerType !== 'mouse' || !this.view) return;
      this.movePointer(event);
    });
    scroller.addEventListener('pointerleave', () => this.forgetPointer());
    scroller.addEventListener('pointerdown', (event) => {
      this.lastPointer = event.pointerType;
      this.pressed = { x: event.clientX, y: event.clientY };
    });
    scroller.addEventListener('click', (event) => this.click(event));
    scroller.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.layOut()).observe(scroller);
  }

  movePointer(event) {
    const area = this.scroller.getBoundingClientRect();
    const { clientX, clientY } = event;
    this.pointer = { x: clientX - area.left, y: clientY - area.top, clientX, clientY };
    if (this.pointer.x >= this.width) return this.forgetPointer(); // on the scroll bar
    const before = this.hovered;
    this.hovered = this.boxAt(this.pointer.x, this.pointer.y);
    if (before !== this.hovered) this.drawMarks();
    this.tell();
  }

  click(event) {
    if (!this.view) return;
    const { x, y } = this.pressed ?? { x: event.clientX, y: event.clientY };
    this.pressed = null;
    if (Math.hypot(event.clientX - x, event.clientY - y) > CLICK_PX) return; // dragged
    const area = this.scroller.getBoundingClientRect();
    const box = this.boxAt(event.clientX - area.left, event.clientY - area.top);
    if (this.lastPointer === 'touch') {
      this.select(box);
    } else if (box !== null) {
      this.selectedPath = null;
      this.on.zoom(this.view.pathOf(box), this.view.runOf(box));
    }
  }

  key(event) {
    if (!this.view || event.ctrlKey || event.metaKey || event.altKey) return;
    const away = this.isFlame ? 'ArrowUp' : 'ArrowDown';
    const directions = {
      ArrowLeft: 'left',
      ArrowRight: 'right',
      [away]: 'in',
      [away === 'ArrowUp' ? 'ArrowDown' : 'ArrowUp']: 'out',
    };
    const direction = directions[event.key];
    if (direction) {
      const from = this.selected();
      this.forgetPointer();
      this.select(from === null ? this.zoomBox : (this.view.neighbour(from, direction) ?? from));
    } else if (event.key === 'Enter' && this.selected() !== null) {
      this.on.zoom(this.view.pathOf(this.selected()), this.view.runOf(this.selected()));
    } else {
      return;
    }
    event.preventDefault();
  }
}
