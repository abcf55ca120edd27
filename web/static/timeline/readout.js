// The line above the timeline: what is at the pointer, else which range is chosen, else what the colours mean.

import { savedRange } from '../server/connection.js';
import { h, setText } from '../page/dom.js';
import { drawSwatch } from './paint.js';
import {
  ACTIVITIES,
  ACTIVITY_LABELS,
  ACTIVITY_WORDS,
  describeParts,
  formatMoment,
  formatRange,
  formatTimeOfDay,
  parseRange,
} from '../model/timeline.js';

const EVEN = ' (older than what is kept in detail: an average)';
const GAP_PX = 2; // below a row

export class Readout {
  constructor(text, legend) {
    Object.assign(this, { text, legend });
  }

  setTheme(theme) {
    this.legend.replaceChildren(
      ...ACTIVITIES.map((activity) => {
        const swatch = h('canvas', { class: 'timeline-swatch', 'aria-hidden': 'true' });
        drawSwatch(swatch, activity, theme);
        return h('li', { title: ACTIVITY_WORDS[activity] }, swatch, ACTIVITY_LABELS[activity]);
      }),
    );
  }

  /** @param timeline {drag, pointer, scene, lanes, whole, startedS, getState()} */
  show(timeline) {
    const atMouse = describeDrag(timeline.drag) || describePointer(timeline);
    setText(this.text, atMouse || describeRanges(timeline));
    this.legend.hidden = atMouse !== '';
  }
}

function describeDrag(drag) {
  if (!drag) return '';
  return `${drag.kind === 'compare' ? 'Compare with ' : ''}${formatRange(drag)}`;
}

function describeRanges({ getState, whole, startedS }) {
  const { range, compare } = getState();
  const chosen = parseRange(range || savedRange, whole.to);
  const other = parseRange(compare, whole.to);
  const times = chosen && [chosen.from, chosen.to].map((ms) => formatTimeOfDay(startedS, ms));
  const said = chosen ? [formatRange(chosen), times[0] && `${times[0]} – ${times[1]}`].filter(Boolean) : [];
  if (other) said.push(`compared with ${formatRange(other)}`);
  return said.join(', ');
}

function describePointer({ pointer, scene, lanes, startedS }) {
  if (!pointer) return '';
  const row = scene.rows.find(({ top, height }) => pointer.y >= top && pointer.y < top + height + GAP_PX);
  const bins = row?.bins ?? lanes.bins;
  const time = formatTimeOfDay(startedS, pointer.ms);
  const moment = `${formatMoment(pointer.ms, bins.step)}${time ? ` (${time})` : ''}`;
  const bin = bins.at(pointer.ms);
  if (!row || bin === null) return moment;
  const even = pointer.ms < lanes.evenMs ? EVEN : '';
  if (row.kind === 'overview') {
    const cpus = (activity) => (row.lane.share(activity, bin) * row.lane.scale_ns) / (bins.step * 1e6);
    const queued = cpus('queued');
    const isCut = row.lane.share('queued', bin) >= 1;
    const waiting = queued >= 0.05 ? `, ${isCut ? 'at least ' : ''}${queued.toFixed(1)} threads waiting for one` : '';
    return `${moment}: ${cpus('cpu').toFixed(1)} CPUs busy${waiting}${even}`;
  }
  if (row.kind === 'gil') {
    return `${moment}: the GIL is held ${Math.round(100 * row.lane.share('cpu', bin))} % of the time${even}`;
  }
  return `${moment} · ${row.label}: ${describeParts(row.lane.parts(bin))}${even}`;
}
