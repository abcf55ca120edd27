// Pointer, wheel and keys on the timeline.

const CLICK_PX = 4; // a pointer that moves less has clicked
const ZOOM_A_PIXEL = 1.0035;

export class Gestures {
  /** @param on hover, dragTo, endDrag, click, zoom, pan, key of Timeline */
  constructor(plot, on) {
    Object.assign(this, { plot, on });
    this.start = null; // {x, y, shift} where the pointer went down
    this.touches = new Map(); // pointer id → x, for two fingers
    plot.addEventListener('pointerdown', (event) => this.down(event));
    plot.addEventListener('pointermove', (event) => this.move(event));
    plot.addEventListener('pointerup', (event) => this.up(event));
    plot.addEventListener('pointercancel', () => this.cancel());
    plot.addEventListener('pointerleave', () => this.on.hover(null));
    plot.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    plot.addEventListener('keydown', (event) => this.key(event));
  }

  point(event) {
    const box = this.plot.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  down(event) {
    if (event.button !== 0) return;
    this.plot.setPointerCapture(event.pointerId);
    const point = this.point(event);
    if (event.pointerType === 'touch') this.touches.set(event.pointerId, point.x);
    if (this.touches.size > 1) {
      this.start = null;
      this.on.endDrag(false);
      return;
    }
    this.start = { ...point, isCompare: event.shiftKey, hasMoved: false };
  }

  move(event) {
    const point = this.point(event);
    if (this.touches.size > 1 && this.touches.has(event.pointerId)) {
      this.pinch(event.pointerId, point);
      return;
    }
    if (event.pointerType !== 'touch') this.on.hover(point);
    const { start } = this;
    if (!start) return;
    start.hasMoved ||= Math.abs(point.x - start.x) >= CLICK_PX;
    if (start.hasMoved) this.on.dragTo(start, point, start.isCompare);
  }

  pinch(id, point) {
    const xs = () => [...this.touches.values()].slice(0, 2);
    const before = Math.abs(xs()[0] - xs()[1]);
    this.touches.set(id, point.x);
    const [a, b] = xs();
    const after = Math.abs(a - b);
    if (before > 8 && after > 8) this.on.zoom(before / after, (a + b) / 2, point.y);
  }

  up(event) {
    const { start } = this;
    this.touches.delete(event.pointerId);
    this.start = null;
    if (!start) return;
    if (start.hasMoved) this.on.endDrag(true);
    else this.on.click();
  }

  cancel() {
    this.touches.clear();
    this.start = null;
    this.on.endDrag(false);
  }

  wheel(event) {
    event.preventDefault();
    const { x, y } = this.point(event);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.on.pan(event.deltaX || event.deltaY);
    else this.on.zoom(ZOOM_A_PIXEL ** event.deltaY, x, y);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape') this.start = null;
    if (!this.on.key(event)) return;
    event.preventDefault();
    event.stopPropagation(); // not also the page's keys
  }
}
