// What the colours of the graph mean: whose code it is in a recording with Python functions, else the modules
// with most time in the present view.

import { ORIGINS, isQueued } from '../model/color.js';
import { formatShare } from '../model/format.js';
import { byId, h, swatch } from './dom.js';
import { reconcile } from './reconcile.js';

const MODULES = 6; // shown; the rest have colours, too

/** Returns the modules of a view, those with most own time first, and whether threads waited for a CPU. */
export function modulesOf({ boxes, functions }) {
  const own = new Map();
  let hasQueued = false;
  boxes.function.forEach((at, box) => {
    if (at < 0) return;
    const f = { name: functions.name[at], kind: functions.kind[at] };
    if (isQueued(f)) hasQueued = true;
    else if (functions.module[at]) {
      own.set(functions.module[at], (own.get(functions.module[at]) ?? 0) + boxes.self_ns[box]);
    }
  });
  const modules = [...own].sort((a, b) => b[1] - a[1]).map(([module]) => module);
  return { modules, hasQueued };
}

/** Returns the share of a view's time that whose code it is has as own time; "" if it has none. */
function shareOf(view, origin) {
  const { total_ns: total = 0, own_ns: own = {} } = view.origins ?? {};
  return total && own[origin] ? formatShare(own[origin], total) : '';
}

function item(color, text, title, { isStriped = false, share = '', part = '' } = {}) {
  const mark = swatch(color);
  if (isStriped) mark.classList.add('striped');
  const about = share ? `${title}: ${share} of the time` : title;
  const element = h(
    'li',
    { title: part ? `${about}, ${part} that of the runtime itself, for code of its language: memory, look-ups, compiling` : about, 'data-key': text },
    mark,
    h('span', {}, text),
    share && h('b', { class: 'number' }, share),
    part && h('span', { class: 'number' }, `runtime ${part}`),
  );
  return Object.assign(element, { hasShare: share !== '' });
}

export class Legend {
  constructor() {
    this.element = byId('legend');
  }

  update(view, palette) {
    this.element.hidden = Boolean(view.comparison); // whose colours stand at the top
    if (!palette || view.comparison) return;
    const { modules, hasQueued } = modulesOf(view);
    const shown = palette.hasPython
      ? ORIGINS.map(({ origin, label, text }) => item(palette.origin(origin), label, text, { share: shareOf(view, origin), part: origin === 'native' ? shareOf(view, 'runtime') : '' }))
      : modules.slice(0, MODULES).map((module) => item(palette.module(module), module, `Functions of ${module}`));
    if (hasQueued) {
      const queued = { kind: 'synthetic', module: '', name: '[waiting for a CPU]' };
      shown.push(item(palette.box(queued), 'waiting for a CPU', 'The thread could run, but had no CPU', { isStriped: true, share: shareOf(view, 'queued') }));
    }
    const gil = shareOf(view, 'gil');
    if (gil) {
      const waits = { kind: 'synthetic', module: '', name: '[waiting for the GIL]' };
      shown.push(item(palette.box(waits), 'waiting for the GIL', 'The thread waited for Python’s global interpreter lock', { share: gil }));
    }
    // What has no room is left out at the end.
    if (palette.hasPython) shown.sort((a, b) => Number(b.hasShare) - Number(a.hasShare));
    reconcile(this.element, shown);
    this.element.hidden = shown.length === 0;
  }
}
