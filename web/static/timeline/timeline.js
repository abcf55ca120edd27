// The timeline: the CPU time of the whole recording, and lanes of its threads. Dragging chooses a range of time, that
// all views obey; with Shift, the range to compare with.

import { rem } from '../page/appearance.js';
import { byId, choice, setText } from '../page/dom.js';
import { say } from '../page/toast.js';
import { hasTimeline, isReport, savedRange } from '../server/connection.js';
import { LaneFeed } from '../server/lanes.js';
import { Gestures } from './gestures.js';
import { HeatMap } from './heatmap.js';
import { LaneNames } from './names.js';
import { TimePainter } from './paint.js';
import { Readout } from './readout.js';
import { weightQuery } from '../model/state.js';
import {
  ROLLING,
  formatRange,
  nudge,
  panShown,
  parseRange,
  toRange,
  zoomShown,
} from '../model/timeline.js';

const BIN_PX = 2;
const OVERVIEW_BINS = 400; // wide enough for some samples each: bursts stand out, not noise
const LANE_NAMES = { thread: 'threads', process: 'processes', program: 'programs' };
const MOST_PROCESSES = 12; // with a lane each
const LANES = { small: 4, open: 16 };
const STORED = 'flametap.timeline';
const FOLLOWS = 0.002; // a shown time that ends so near to the end, as a share of it, follows the recording

/** Returns where the rows are, in pixels: they are as large as the user wants text. */
function measures() {
  const px = (length) => Math.round(length * rem());
  return {
    overview: { top: 0, height: px(34) },
    axis: { top: px(36), height: px(17) },
    lane: { height: px(16), gap: 2 },
  };
}

export class Timeline {
  /**
   * @param getState returns the state of the page
   * @param on {change(patch)}
   */
  constructor(getState, on) {
    Object.assign(this, { getState, on });
    this.plot = byId('timeline-plot');
    this.readout = new Readout(byId('timeline-text'), byId('timeline-legend'));
    this.painter = new TimePainter(byId('timeline-lanes'), byId('timeline-marks'));
    this.names = new LaneNames(byId('timeline-names'), (ids) => this.chooseThreads(ids));
    this.lanes = null;
    this.measures = measures();
    this.isFinal = false;
    this.shown = null; // {from, to}; null for the whole recording, as it grows
    this.drag = null; // {from, to, kind}
    this.pointer = null; // {ms, y, row}
    this.page = 0; // of the lanes
    this.rolling = ''; // the range that "live" returns to
    this.size = stored();
    this.feed = new LaneFeed(() => this.wanted(), { show: (lanes) => this.show(lanes) });
    this.gestures = new Gestures(this.plot, this);
    this.heat = new HeatMap({
      view: () => this.view,
      shown: () => this.shown,
      threads: () => new URLSearchParams(weightQuery(this.getState())).get('threads') ?? '',
      drag: (from, to, isCompare) => this.setDrag(from, to, isCompare),
      choose: (isChosen) => this.endDrag(isChosen),
      click: () => this.click(),
      hover: (ms) => this.hoverAt(ms),
      open: (heat) => this.on.change({ heat }),
      drawn: () => this.redrawMarks(),
    });
    byId('timeline').hidden = !hasTimeline;
    // A report has one range: the timeline begins with it, and a drag looks closer.
    const saved = parseRange(savedRange, Infinity);
    if (saved) this.shown = { from: saved.from, to: saved.to };
    this.showRange = choice(byId('timeline-range'), (range) => this.choose(range));
    this.listen();
  }

  listen() {
    byId('timeline-live').addEventListener('click', () => this.goLive());
    byId('timeline-size').addEventListener('click', () => this.resize());
    byId('timeline-more').addEventListener('click', () => this.turn(1));
    byId('timeline-fewer').addEventListener('click', () => this.turn(-1));
    new ResizeObserver(() => this.request()).observe(this.plot);
    document.addEventListener('visibilitychange', () => this.feed.schedule());
  }

  // --- data ------------------------------------------------------------------------------------

  /** Notes a status. @param status model.Status */
  news(status) {
    if (status.is_final && !this.isFinal) this.feed.forget();
    this.isFinal = status.is_final;
    this.startedS = status.started_s;
    this.processes = status.processes;
    this.followSplit();
    this.feed.news(status.revision);
    this.heat.news();
  }

  /** What has a lane: of many processes each one, or each program, unless something else is shown apart. */
  get split() {
    const { by } = this.getState();
    if (isReport || !(this.processes > 1)) return 'thread';
    return by || (this.processes > MOST_PROCESSES ? 'program' : 'process');
  }

  /** Asks for other lanes if something else has them now. */
  followSplit() {
    if (this.split === this.shownSplit) return;
    this.page = 0;
    this.shownSplit = this.split;
    this.feed.request();
  }

  get nLanes() {
    return LANES[this.size];
  }

  wanted() {
    const width = this.plot.clientWidth;
    if (!width) return null;
    const bins = Math.max(50, Math.min(1440, Math.round(width / BIN_PX)));
    const query = new URLSearchParams({ bins, lanes: this.nLanes, overview: Math.min(bins, OVERVIEW_BINS) });
    if (this.shown) query.set('from', Math.floor(this.shown.from));
    if (this.shown) query.set('to', Math.ceil(this.shown.to));
    if (this.page) query.set('skip', this.page * this.nLanes);
    if (this.size === 'open') query.set('idle', '1');
    query.set('split', this.split);
    const threads = this.getState().threads.filter(Number.isInteger); // names are found by the server
    if (threads.length && this.split === 'thread') query.set('also', threads.slice(0, 8).join(','));
    return { query, to: this.shown?.to ?? null, bins };
  }

  request() {
    this.feed.request();
    this.heat.request();
    this.redraw();
  }

  show(lanes) {
    this.lanes = lanes;
    this.redraw();
  }

  /** Returns the time of the whole recording. */
  get whole() {
    return { from: 0, to: Math.max(1, this.lanes?.durationMs ?? 1) };
  }

  get view() {
    return this.shown ?? this.whole;
  }

  // --- state -----------------------------------------------------------------------------------

  /** Shows another state. */
  update() {
    const { range, threads } = this.getState();
    if (!range || range.startsWith('last')) this.rolling = range;
    this.names.choose(threads);
    const isKnown = !threads.length || this.split !== 'thread' || threads.every((id) => this.lanes?.ids.includes(id));
    if (!isKnown) this.feed.request();
    this.followSplit();
    if (String(threads) !== this.chosen) this.heat.request();
    this.chosen = String(threads);
    this.heat.open(this.getState().heat);
    this.redraw();
  }

  choose(range) {
    if (range === '') this.setShown(null);
    this.on.change({ range });
  }

  chooseThreads(ids) {
    const { threads } = this.getState();
    this.on.change({ threads: String(threads) === String(ids) ? [] : ids });
  }

  goLive() {
    this.setShown(null);
    this.on.change({ range: this.rolling, compare: '' });
  }

  /** Removes the drag, else the comparison, else the range. Returns whether there was one. */
  clear() {
    const { range, compare } = this.getState();
    if (this.drag) this.endDrag(false);
    else if (compare) this.on.change({ compare: '' });
    else if (range) this.on.change({ range: '' });
    else if (this.shown) this.setShown(null);
    else return false;
    return true;
  }

  setShown(shown) {
    const { to } = this.whole;
    const isWhole = !shown || (shown.from <= 0 && shown.to >= to * (1 - FOLLOWS));
    const before = this.shown;
    this.shown = isWhole ? null : shown;
    if (before === this.shown) return;
    clearTimeout(this.shownTimer);
    this.shownTimer = setTimeout(() => this.request(), 80);
    this.heat.draw();
    this.redraw();
  }

  resize() {
    this.size = this.size === 'open' ? 'small' : 'open';
    this.page = 0;
    try {
      localStorage.setItem(STORED, this.size);
    } catch {
      // No storage: the choice lasts as long as the page.
    }
    this.request();
  }

  turn(by) {
    this.page = Math.max(0, this.page + by);
    this.request();
  }

  // --- gestures (gestures.js) --------------------------------------------------------------------

  /** Returns the moment at x of the plot, in milliseconds; of the overview's time if y is in it. */
  moment(x, y) {
    const { from, to } = y < this.measures.axis.top ? this.whole : this.view;
    return from + (Math.min(1, Math.max(0, x / this.plot.clientWidth)) * (to - from));
  }

  hover(point) {
    this.pointer = point && { ...point, ms: this.moment(point.x, point.y) };
    this.redrawMarks();
  }

  dragTo(start, point, isCompare) {
    const from = this.moment(start.x, start.y);
    // A drag that began in the overview stays in its time.
    const to = this.moment(point.x, start.y);
    this.setDrag(from, to, isCompare);
  }

  setDrag(from, to, isCompare) {
    this.drag = { from: Math.min(from, to), to: Math.max(from, to), kind: isCompare ? 'compare' : 'drag' };
    this.redrawMarks();
  }

  /** Marks a moment that is pointed at elsewhere. */
  hoverAt(ms) {
    this.pointer = ms === null ? null : { ms, y: this.measures.axis.top };
    this.redrawMarks();
  }

  endDrag(isChosen) {
    const { drag } = this;
    this.drag = null;
    if (isChosen && drag && isReport) {
      this.setShown({ from: drag.from, to: drag.to });
      say('Only the timeline looks closer: a saved report has the stacks of its whole time.');
    } else if (isChosen && drag) {
      const range = toRange(drag.from, drag.to, this.whole.to);
      this.on.change(drag.kind === 'compare' ? { compare: range } : { range });
    }
    this.redrawMarks();
  }

  /** Ends a fixed range: a click without a drag returns to the rolling one, or to the whole recording. */
  click() {
    const { range } = this.getState();
    if (range && !range.startsWith('last')) this.on.change({ range: this.rolling, compare: '' });
  }

  zoom(factor, x, y) {
    if (this.lanes) this.setShown(zoomShown(this.view, factor, this.moment(x, Math.max(y, this.measures.axis.top)), this.whole.to));
  }

  pan(pixels) {
    const { from, to } = this.view;
    if (this.shown) this.setShown(panShown(this.shown, (pixels / this.plot.clientWidth) * (to - from), this.whole.to));
  }

  /** Acts on a key. Returns whether it has a meaning here. */
  key(event) {
    const { range, compare } = this.getState();
    const middle = this.plot.clientWidth / 2;
    if (['ArrowLeft', 'ArrowRight'].includes(event.key) && isReport) {
      this.pan((event.key === 'ArrowLeft' ? -1 : 1) * (this.plot.clientWidth / 20));
    } else if (['ArrowLeft', 'ArrowRight'].includes(event.key)) {
      const chosen = parseRange(range, this.whole.to);
      const next = nudge(chosen, event.key, event.shiftKey, this.view, this.whole.to);
      this.on.change({ range: next });
      setText(byId('announcement'), `Range ${formatRange(parseRange(next, this.whole.to))}`);
    } else if (event.key === '+' || event.key === '=') this.zoom(0.6, middle, this.measures.axis.top);
    else if (event.key === '-') this.zoom(1 / 0.6, middle, this.measures.axis.top);
    else if (event.key === 'Escape') return this.clear();
    else if (event.key === 'c' && range && !compare) {
      // The other range to compare with: as long, and right before.
      const { from, to } = parseRange(range, this.whole.to);
      this.on.change({ compare: toRange(Math.max(0, from - (to - from)), from || to, this.whole.to) });
    } else return false;
    return true;
  }

  // --- drawing -----------------------------------------------------------------------------------

  /** @param style see TimePainter */
  setStyle(style) {
    this.measures = measures();
    this.painter.setStyle(style);
    this.heat.setStyle(style);
    this.readout.setTheme(style.theme);
    this.redraw();
  }

  redraw() {
    this.isStale = true;
    this.redrawMarks();
  }

  redrawMarks() {
    this.frame ||= requestAnimationFrame(() => this.paint());
  }

  rows() {
    const { lanes } = this;
    const { overview, overviewBins } = lanes;
    const peak = overview.highest('cpu') * (overview.scale_ns / overviewBins.step / 1e6);
    const label = `CPU ≤ ${peak.toFixed(1)}`;
    const title = `CPUs in use over the whole recording, at most ${peak.toFixed(1)} at once; marked at the top where threads wait for a CPU`;
    const found = [{ kind: 'overview', lane: overview, bins: overviewBins, ...this.measures.overview, label, title }];
    let top = this.measures.axis.top + this.measures.axis.height + 2;
    const add = (row) => {
      found.push({ bins: lanes.bins, top, height: this.measures.lane.height, ...row });
      top += this.measures.lane.height + this.measures.lane.gap;
    };
    for (const lane of lanes.lanes) {
      const ids = lane.thread_ids.length ? lane.thread_ids : [lane.thread_id];
      add({ kind: 'thread', lane, id: lane.thread_id, ids, label: lanes.label(lane) });
    }
    if (lanes.rest) {
      const count = lanes.rest.threads;
      add({ kind: 'rest', lane: lanes.rest, label: `${count} other${count === 1 ? '' : 's'}` });
    }
    if (lanes.gil) add({ kind: 'gil', lane: lanes.gil, label: 'GIL held' });
    return { rows: found, height: top };
  }

  paint() {
    this.frame = 0;
    if (!this.lanes || !this.painter.style) return;
    const { rows, height } = this.rows();
    if (this.isStale) {
      this.plot.style.height = `${height}px`;
      this.names.update(rows, this.getState().threads);
      this.showControls();
    }
    const width = this.plot.clientWidth;
    const geometry = { axisTop: this.measures.axis.top, axisHeight: this.measures.axis.height, overviewTop: this.measures.overview.top };
    this.scene = { rows, width, height, shown: this.view, whole: this.whole, ...geometry };
    if (this.isStale) this.painter.draw(this.scene);
    this.isStale = false;
    this.painter.drawMarks(this.scene, this.ranges(), this.pointer?.ms ?? null);
    this.heat.drawMarks(this.ranges(), this.painter.style);
    this.readout.show(this);
  }

  ranges() {
    const { range, compare } = this.getState();
    const found = [];
    const add = (text, kind) => {
      const parsed = parseRange(text, this.whole.to);
      if (parsed) found.push({ ...parsed, kind });
    };
    if (this.drag?.kind !== 'drag') add(range || savedRange, 'range');
    if (this.drag?.kind !== 'compare') add(compare, 'compare');
    return this.drag ? [...found, this.drag] : found;
  }

  showControls() {
    const { range } = this.getState();
    this.showRange(ROLLING.includes(range) ? range : null);
    const isPinned = (range && !range.startsWith('last')) || this.shown !== null;
    byId('timeline-live').hidden = !isPinned;
    setText(byId('timeline-live-text'), this.isFinal ? 'Show all' : 'Live');
    const { threads } = this.lanes;
    const isOpen = this.size === 'open';
    const canGrow = isOpen ? threads > LANES.small + 1 : this.lanes.rest !== null;
    const size = byId('timeline-size');
    size.hidden = !canGrow;
    size.setAttribute('aria-expanded', String(isOpen));
    setText(byId('timeline-size-text'), isOpen ? 'Fewer lanes' : `${threads} ${LANE_NAMES[this.split]}`);
    const hasPages = isOpen && threads > LANES.open + 1;
    byId('timeline-pages').hidden = !hasPages;
    byId('timeline-fewer').disabled = this.page === 0;
    byId('timeline-more').disabled = (this.page + 1) * this.nLanes >= threads;
  }
}

function stored() {
  try {
    return localStorage.getItem(STORED) === 'open' ? 'open' : 'small';
  } catch {
    return 'small';
  }
}
