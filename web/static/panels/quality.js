// How far the graph can be trusted: the line in the footer, and the panel that it opens.

import { bar, byId, h } from '../page/dom.js';
import { reconcile } from '../page/reconcile.js';
import {
  costShare,
  explainCounters,
  explainModules,
  explainPrecision,
  explainPython,
  explainTrust,
  explainVerdicts,
  formatEngine,
  languagesOf,
  sampleNs,
  summarise,
} from '../model/explain.js';
import { formatBytes, formatCount, formatNs, formatPlural, formatRate, formatShare } from '../model/format.js';

// Effects on the process that it does not notice.
const HARMLESS = ['eintr_repaired', 'waits_interrupted'];
// Code that a program generated at run time is in no module.
const NO_FILE = 'code outside of any file (JIT)';

/** Replaces the content of an element, unless the content is the same or the user is selecting text in it. */
function fill(element, key, make) {
  const text = JSON.stringify(key);
  const selection = document.getSelection();
  const isSelecting = selection && !selection.isCollapsed && element.contains(selection.anchorNode);
  if (element.filledWith === text || isSelecting) return;
  element.filledWith = text;
  reconcile(element, make());
}

function fact(label, value, text = '') {
  return h(
    'li',
    {},
    h('span', { class: 'fact-label' }, label),
    h('span', { class: 'number' }, value),
    text && h('span', { class: 'fact-text' }, text),
  );
}

function verdictRows(rows, total) {
  return rows.map(({ level, label, text, ns }) => {
    const item = fact(label, formatShare(ns, total), text);
    item.firstChild.prepend(h('span', { class: `dot ${level}` }));
    return item;
  });
}

export class Quality {
  /** @param onToggle called after the panel has opened or closed: the graph's width changes */
  constructor(onToggle) {
    this.onToggle = onToggle;
    this.report = null; // the answer to the last symbols request
    this.panel = byId('quality');
    this.strip = byId('health');
    this.button = byId('quality-button');
    this.button.addEventListener('click', () => this.toggle());
    this.strip.addEventListener('click', () => this.toggle());
    byId('quality-close').addEventListener('click', () => this.toggle(false));
  }

  get isOpen() {
    return !this.panel.hidden;
  }

  /** True if the panel covers the graph (narrow windows), false if it is beside it. */
  get isSheet() {
    return getComputedStyle(this.panel).position === 'absolute';
  }

  toggle(isOpen = this.panel.hidden) {
    this.panel.hidden = !isOpen;
    this.button.setAttribute('aria-expanded', String(isOpen));
    this.strip.setAttribute('aria-expanded', String(isOpen));
    if (this.status) this.update(this.status, this.palette);
    this.onToggle();
  }

  /** @param view layout.BoxView: what is shown */
  setView(view) {
    const { boxes, zoom, nameless_ns, nameless_frames, asked } = view;
    this.view = { nameless_ns, nameless_frames, total_ns: boxes.total_ns[zoom.box], clock: asked.clock };
    if (this.status) this.update(this.status, this.palette);
  }

  /** @param status model.Status with symbols */
  update(status, palette) {
    Object.assign(this, { status, palette });
    const facts = summarise(status, this.view);
    const levels = facts.map(({ level }) => level);
    this.button.dataset.level = levels.includes('bad') ? 'bad' : levels.includes('fair') ? 'fair' : 'good';
    // What there is no room for is left out at the end.
    const byLevel = ['bad', 'fair', 'good'].flatMap((wanted) => facts.filter(({ level }) => level === wanted));
    fill(this.strip, facts, () =>
      byLevel.map(({ level, text }) =>
        h('span', { class: 'fact' }, h('span', { class: `dot ${level}` }), text),
      ),
    );
    if (!this.isOpen) return;
    this.showTrust(status, facts);
    this.showStacks(status);
    this.showPython(status);
    this.showCounters(status.counters);
    this.showSymbols();
    this.showCost(status);
    fill(byId('quality-notes'), status.notes, () => status.notes.map((note) => h('li', {}, note)));
    byId('quality-notes-section').hidden = status.notes.length === 0;
  }

  showTrust(status, facts) {
    const { level, text } = explainTrust(facts);
    const { clock, total_ns: totalNs } = this.view ?? {};
    const precision = explainPrecision(totalNs, sampleNs(status, clock));
    fill(byId('quality-trust'), [level, text, precision], () => [
      h('p', { class: 'trust' }, h('span', { class: `dot ${level}` }), h('strong', {}, text)),
      precision ? h('p', { class: 'dim' }, precision) : '',
    ]);
  }

  showStacks({ verdict_cpu_ns: verdictNs, verdict_modules: modules }) {
    fill(byId('quality-stacks'), [verdictNs, modules], () => {
      const { total, complete, rows } = explainVerdicts(verdictNs);
      if (!total) return [h('p', { class: 'dim' }, 'No CPU time recorded yet.')];
      const atFault = Object.entries(modules).sort((a, b) => b[1] - a[1]);
      const share = h('strong', {}, formatShare(complete, total));
      return [
        h('p', {}, share, ' of the CPU time is in complete stacks: they reach the first function of their thread.'),
        h(
          'div',
          { class: 'stacked', 'aria-hidden': 'true' },
          rows.map(({ level, ns }) => bar(level, ns / total)),
        ),
        h(
          'ul',
          { class: 'facts' },
          verdictRows(rows, total),
        ),
        atFault.length ? h('h3', {}, 'Where stacks stop') : '',
        atFault.length
          ? h(
              'p',
              { class: 'dim' },
              'This code does not tell who called it. Build it with -fasynchronous-unwind-tables, ' +
                'or with -fno-omit-frame-pointer if it generates code.',
            )
          : '',
        h(
          'ul',
          { class: 'facts' },
          atFault.map(([module, ns]) => fact(module || NO_FILE, formatShare(ns, total))),
        ),
      ];
    });
  }

  showPython(status) {
    const verdictNs = status.managed_verdict_cpu_ns;
    const { total, whole, rows } = explainPython(verdictNs);
    const name = languagesOf(status);
    byId('quality-python-section').hidden = !total;
    byId('quality-python-section').querySelector('h2').textContent = name;
    fill(byId('quality-python'), [verdictNs, name], () => [
      h('p', {}, h('strong', {}, formatShare(whole, total)), ` of the CPU time in ${name} is in stacks with all their ${name} functions, each in its place.`),
      h('ul', { class: 'facts' }, verdictRows(rows, total)),
    ]);
  }

  showCounters(counters) {
    const groups = explainCounters(counters);
    fill(byId('quality-losses'), groups, () =>
      groups
        .filter(({ group }) => ['lost', 'imprecise', 'target'].includes(group))
        .flatMap(({ title, rows, group }) => {
          const seen = rows.filter(({ value }) => value > 0);
          const isPart = (label) => label.startsWith('…'); // of the one above
          const none = rows.filter(({ value, label }) => value === 0 && !isPart(label));
          const zeros = none.map(({ label }) => label.toLowerCase());
          const dot = group === 'imprecise' ? 'fair' : 'bad';
          return [
            h('h3', {}, title),
            h(
              'ul',
              { class: 'facts' },
              seen.map(({ name, label, text, shown }) => {
                const item = fact(label, shown, text);
                const level = HARMLESS.includes(name) ? 'good' : dot;
                item.firstChild.prepend(h('span', { class: `dot ${level}` }));
                return item;
              }),
            ),
            zeros.length
              ? h(
                  'details',
                  { class: 'zeros' },
                  h('summary', {}, h('span', { class: 'dot good' }), `None of ${formatPlural(zeros.length, seen.length ? 'other kind' : 'kind')}`),
                  h('p', {}, `None: ${zeros.join(', ')}.`),
                )
              : '',
          ];
        }),
    );
    fill(byId('quality-counters'), groups, () =>
      groups.flatMap(({ title, rows }) => [
        h('h3', {}, title),
        h(
          'ul',
          { class: 'facts raw' },
          rows.map(({ name, label, shown, text }) => fact(name, shown, [label, text].filter(Boolean).join(': '))),
        ),
      ]),
    );
  }

  /** @param report the answer to a symbols request; @param clock the name of its clock */
  showModules(report, clock) {
    Object.assign(this, { report, clock });
    this.showSymbols();
  }

  showSymbols() {
    const { report, palette, clock, status } = this;
    const pending = status.symbols_pending;
    const waiting = pending
      ? h('p', { class: 'dim' }, `${formatPlural(pending, 'name')} still being read.`)
      : '';
    const element = byId('quality-symbols');
    if (!report) {
      fill(element, [pending], () => [waiting]);
      return;
    }
    fill(element, [report, pending, clock, palette.theme, palette.program], () => {
      const { total, named, lined, rows } = explainModules(report);
      const share = (ns) => h('strong', {}, formatShare(ns, total));
      return [
        waiting,
        total > 0
          ? h(
              'p',
              {},
              ...[share(named), ` of the ${clock} time is in functions with names, `],
              ...[share(lined), ' has known source lines.'],
            )
          : '',
        h('ul', { class: 'modules' }, rows.map((row) => this.moduleRow(row, total))),
      ];
    });
  }

  moduleRow(row, total) {
    const swatch = h('span', { class: 'swatch' });
    swatch.style.background = this.palette.module(row.module);
    const meter = h(
      'span',
      { class: 'stacked', 'aria-hidden': 'true' },
      row.parts.map(([level, part]) => bar(level, (part * row.self_ns) / total)),
    );
    return h(
      'li',
      {},
      swatch,
      h('span', { class: 'module-name', title: row.module }, row.module),
      h('span', { class: 'number' }, row.self_ns > 0 ? formatShare(row.self_ns, total) : ''),
      h('span', { class: `badge ${row.level}`, title: row.text }, row.badge),
      row.parts.length ? meter : null,
      row.summary && h('span', { class: 'fact-text' }, row.summary),
      row.note && h('span', { class: 'fact-text' }, row.note),
    );
  }

  showCost(status) {
    const { counters, handler_p50_ns: median, handler_p99_ns: p99 } = status;
    const { engine, rate_hz: rate, look_rate_hz: looks, effective_rate_hz: taken } = status;
    const share = costShare(status);
    const samples = counters.signals_handled ?? 0;
    const mean = samples ? (counters.handler_ns_total ?? 0) / samples : 0;
    const key = [counters, median, p99, engine, rate, looks, taken];
    fill(byId('quality-cost'), key, () => [
      h('p', {}, h('strong', {}, formatShare(share, 1)), ' of one core, inside the process.'),
      h(
        'ul',
        { class: 'facts' },
        fact('Sampling rate', formatRate(rate), `of CPU time, by ${formatEngine(engine)}; ${formatRate(taken)} achieved`),
        fact('Sleeping threads', formatRate(looks), 'how often they are looked at'),
        !median
          ? fact('A sample takes, on average', mean ? formatNs(mean) : '–')
          : fact('A sample takes', `${formatNs(median)} / ${formatNs(p99)}`, 'median / 99th percentile at most'),
        fact('Longest sample', formatNs(counters.handler_ns_max ?? 0), 'the longest delay of a thread'),
        fact('Sampling thread', formatNs(counters.sampler_cpu_ns ?? 0), 'CPU time since the start'),
        fact('Memory', formatBytes(counters.bytes_held ?? 0), 'in the process, until we detach'),
        counters.signals_sent
          ? fact('Signals sent', formatCount(counters.signals_sent), 'to running threads that have no CPU timer, one for each sample')
          : '',
        fact('Stacks read', formatCount(counters.parked_reads ?? 0), 'of sleeping threads, without waking them'),
        fact(
          'Calls restarted',
          formatCount(counters.eintr_repaired ?? 0),
          `system calls that our signal interrupted; ${formatCount(counters.eintr_unrepairable ?? 0)} could not be (EINTR)`,
        ),
      ),
    ]);
  }
}
