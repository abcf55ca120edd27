// The path from the root to the zoomed box. A click on a part zooms out to it.

import { byId, h, setText } from '../page/dom.js';
import { reconcile } from '../page/reconcile.js';
import { hasCode } from '../model/explain.js';
import { formatCount, formatShare } from '../model/format.js';
import { formatWeight } from '../model/weight.js';
import { labelOf } from '../model/spelling.js';

export class Breadcrumb {
  /** @param on {zoom(path of function ids), code()}: called by its parts and buttons */
  constructor(on) {
    this.onZoom = on.zoom;
    byId('zoom-code').addEventListener('click', () => on.code());
    this.crumbs = byId('crumbs');
    byId('zoom-reset').addEventListener('click', () => on.zoom([]));
  }

  update(path, view) {
    const run = view?.zoom.run;
    byId('zoom-reset').hidden = path.length === 0 && !run;
    if (view) {
      const weight = view.zoom.run?.total_ns ?? view.boxes.total_ns[view.zoom.box];
      const text = `${formatWeight(weight)} · ${formatShare(weight, view.total_ns)}`;
      setText(byId('crumb-weight'), text);
      byId('zoom-code').hidden = Boolean(view.zoom.run) || !hasCode(view.functionOf(view.zoom.box));
    }
    const labels = ['all', ...path.map(labelOf)];
    if (run) labels.push(`${formatCount(run.count)} narrow functions`);
    const key = `${path}|${labels}`;
    if (key === this.key) return;
    this.key = key;
    const parts = labels.flatMap((label, at) => {
      const crumb = h(
        'button',
        {
          type: 'button',
          class: 'crumb',
          'aria-current': at === labels.length - 1 ? 'true' : null,
          title: label,
          onclick: () => this.onZoom(path.slice(0, at)),
        },
        label,
      );
      return at ? [h('span', { class: 'separator', 'aria-hidden': 'true' }, '›'), crumb] : [crumb];
    });
    reconcile(this.crumbs, parts);
    this.crumbs.scrollLeft = this.crumbs.scrollWidth; // show the end of a long path
  }
}
