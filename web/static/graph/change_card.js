// The part of a box's card that compares both sides.

import { h } from '../page/dom.js';
import { describeRange, formatDifference, formatPart, sidesOf, signOf, sureness } from '../model/change.js';

/** Returns the rows of a box in a comparison; null without one. */
export function changeCard(view, box) {
  const { comparison, boxes, asked } = view;
  if (!comparison || view.isRun(box)) return null;
  const grade = boxes.change[box];
  const { here, there, difference } = sidesOf(comparison, boxes.here_ns[box], boxes.there_ns[box]);
  const isShare = comparison.is_share;
  const row = (label, text) => h('tr', {}, h('th', { scope: 'row' }, label), h('td', {}, text));
  return h(
    'table',
    { class: 'change-card' },
    h(
      'tbody',
      {},
      row(describeRange(asked.range), formatPart(here, isShare)),
      row(describeRange(asked.compare), formatPart(there, isShare)),
      row('Change', `${signOf(grade)} ${formatDifference(difference, isShare)} (${sureness(grade)})`),
    ),
  );
}
