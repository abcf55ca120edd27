// The card with the details of one box. It follows the mouse, or is docked at the edge of the graph if
// the box was selected by touch or keyboard.

import { isGuess } from '../model/color.js';
import { bar, byId, h, swatch } from '../page/dom.js';
import { reconcile } from '../page/reconcile.js';
import { explainKind, hasAssembly, hasCode, marginOf, originLabel } from '../model/explain.js';
import { formatCount, formatPlace, formatPoints, formatShare } from '../model/format.js';
import { formatWeight, weightName } from '../model/weight.js';
import { changeCard } from './change_card.js';
import { Holders, isLockWait } from './holders.js';

const GAP_PX = 14; // between the pointer and the card

function weightRow(label, ns, view, zoomNs, sample) {
  const total = view.total_ns;
  const margin = marginOf(ns, total, sample);
  const ofZoom = zoomNs < total ? h('td', { class: 'dim' }, formatShare(ns, zoomNs)) : null;
  return h(
    'tr',
    {},
    h('th', { scope: 'row' }, label),
    h('td', {}, formatWeight(ns)),
    h('td', {}, formatShare(ns, total), margin > 0 ? h('span', { class: 'dim' }, ` ± ${formatPoints(margin)}`) : ''),
    ofZoom,
    h('td', { class: 'meter' }, h('span', { class: 'track' }, bar('fill', ns / total))),
  );
}

/** Returns [level, text]: whether the stacks through a box reach their root. */
function stackNote(view, box) {
  let isGuessed = false;
  for (let at = box; at > 0; at = view.boxes.parent[at]) {
    const f = view.functionOf(at);
    if (f && isGuess(f)) isGuessed = true;
    if (f?.kind === 'synthetic' && f.name === '[truncated]') {
      return ['bad', 'Incomplete: these stacks end before their root'];
    }
    if (f?.kind === 'synthetic' && f.name === '[unattributed]') return ['bad', 'Stack never seen'];
  }
  if (isGuessed) return ['fair', 'Stack reaches its root, by a guessed caller'];
  return ['good', 'Stack reaches its root'];
}

function about(view, box, palette) {
  const f = view.functionOf(box);
  if (view.isRun(box)) {
    const count = formatCount(view.boxes.hidden[box]);
    return [
      h('p', { class: 'name' }, `${count} narrow functions`),
      h('p', { class: 'place' }, 'Each is too narrow to draw here. Zoom in to see them.'),
    ];
  }
  if (f === null) return [h('p', { class: 'name' }, 'all'), h('p', { class: 'place' }, 'Everything recorded')];
  const kind = explainKind(f);
  const file = view.lineFileOf(box);
  const line = view.boxes.line[box];
  // A Python function's module is its short path, so the card has the whole path beside it.
  const isPython = f.kind === 'python';
  const place = isPython ? `${file}${line ? `:${line}` : ''}` : formatPlace(file, line);
  return [
    h(
      'p',
      { class: 'name' },
      f.full_name || f.name,
      kind && h('span', { class: 'badge' }, kind.badge),
      view.tierOf(box) && h('span', { class: 'badge' }, view.tierOf(box)),
    ),
    f.module &&
      h(
        'p',
        { class: 'place' },
        swatch(palette.swatch(f)),
        h('span', {}, isPython ? originLabel(f.origin) : f.module),
        place && h('span', { class: 'file', title: file }, place),
      ),
    kind?.text && h('p', { class: 'place' }, kind.text),
  ];
}

function assemblyHint(f) {
  return hasAssembly(f) ? [h('kbd', {}, 'A'), ' assembly'] : [];
}

export class Details {
  constructor(card, { onZoom, onCode, onMenu }) {
    this.card = card;
    this.onMenu = onMenu;
    this.onZoom = onZoom;
    this.onCode = onCode;
    this.shown = null; // the arguments of show()
    this.holders = new Holders(() => this.shown && this.show(...this.shown));
  }

  /**
   * Shows a box; `info` is that of Graph's `on.point`, null hides the card.
   *
   * @param sample what a sample stands for, nanoseconds; 0 if not known
   */
  show(view, info, { clock, palette, sample }) {
    this.card.hidden = info === null;
    this.shown = info && [view, info, { clock, palette, sample }];
    if (info === null) return;
    const { box, isDocked } = info;
    const boxes = view.boxes;
    const zoomNs = boxes.total_ns[view.zoom.box];
    const [level, note] = stackNote(view, box);
    const f = view.functionOf(box);
    const isSelfKnown = !view.isRun(box) && f !== null;
    reconcile(this.card, [
      ...about(view, box, palette),
      h(
        'table',
        {},
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('th', {}, weightName(clock)),
            h('td', {}),
            h('td', {}, 'of all'),
            zoomNs < view.total_ns ? h('td', {}, 'of zoom') : null,
            h('td', {}),
          ),
        ),
        h(
          'tbody',
          {},
          isSelfKnown ? weightRow('Self', boxes.self_ns[box], view, zoomNs, sample) : null,
          weightRow('Total', boxes.total_ns[box], view, zoomNs, sample),
        ),
      ),
      changeCard(view, box) ?? '',
      isLockWait(f) ? this.holders.show(view, box) : '',
      f === null ? '' : h('p', { class: `verdict ${level}` }, note),
      isDocked ? h('div', { class: 'details-actions' }, this.actions(view, box, f)) : '',
      !isDocked && hasCode(f) && !view.isRun(box)
        ? h('p', { class: 'hint' }, h('kbd', {}, 'S'), ' source ', ...assemblyHint(f))
        : '',
    ]);
    this.card.classList.toggle('docked', isDocked);
    if (isDocked) this.dock(info);
    else this.place(info);
  }

  actions(view, box, f) {
    const path = view.pathOf(box);
    const action = (text, onclick) =>
      h('button', { class: 'button', type: 'button', 'data-key': `${text} ${path}`, onclick }, text);
    const zoom = action('Zoom in', () => this.onZoom(path, view.runOf(box)));
    if (view.isRun(box)) return [zoom];
    return [
      box !== view.zoom.box && zoom,
      hasCode(f) && action('Source', () => this.onCode(f, 'source')),
      hasAssembly(f) && action('Assembly', () => this.onCode(f, 'assembly')),
      f && action('More …', () => this.onMenu(box)),
    ].filter(Boolean);
  }

  /** Docks the card at the top or bottom of the graph, on the side without the box. */
  dock({ path, isLow: isNowLow }) {
    const { style } = this.card;
    // It stays on its side while the box does: buttons must not run away from the pointer.
    const isLow = path === this.docked?.path ? this.docked.isLow : isNowLow;
    this.docked = { path, isLow };
    const area = byId('graph').getBoundingClientRect();
    style.transform = 'none';
    style.top = isLow ? `${area.top + 8}px` : 'auto';
    style.bottom = isLow ? 'auto' : `${window.innerHeight - area.bottom + 8}px`;
  }

  /** Places the card beside the pointer, on the side that has room. */
  place({ x, y }) {
    const { offsetWidth: width, offsetHeight: height, style } = this.card;
    const fitsRight = x + GAP_PX + width <= window.innerWidth - 8;
    const left = fitsRight ? x + GAP_PX : Math.max(8, x - GAP_PX - width);
    const fitsBelow = y + GAP_PX + height <= window.innerHeight - 8;
    const top = fitsBelow ? y + GAP_PX : Math.max(8, y - GAP_PX - height);
    style.top = '0';
    style.bottom = 'auto';
    style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }
}
