// Explains counters, verdicts and symbol sources in plain words, and rates how far the graph can be
// trusted. No DOM.

import { formatBytes, formatCount, formatNs, formatPlural, formatRate, formatShare } from './format.js';
import { ORIGINS } from './color.js';
import { LOSSES } from './losses.js';

const ENGINES = ['rounds', 'cpu-timers']; // agent/abi.h, enum engine
const ENGINE_TEXT = { rounds: 'rounds', 'cpu-timers': 'CPU timers', '': '–' };

/** Formats the engine of a status (model.Status). */
export function formatEngine(engine) {
  return ENGINE_TEXT[engine] ?? String(engine);
}

/** Counters of agent/abi.h by group; each: name, label, meaning, function that formats the value. */
export const COUNTER_GROUPS = [
  {
    group: 'lost',
    title: 'Lost',
    counters: [
      ['ring_full', 'Batches dropped', 'The profiler did not fetch data fast enough.'],
      ...LOSSES,
      ['samples_lost', 'Samples without room', 'The sampling thread did not fetch them in time. Their CPU time is added to the thread\'s next sample.'],
    ],
  },
  {
    group: 'imprecise',
    title: 'Less precise',
    counters: [
      ['unattributed_cpu_ns', 'CPU time without a stack', 'Counted exactly, but never sampled: [unattributed].', formatNs],
      ['unattributed_ended_ns', '… no sample yet', 'Part of it: the thread, or the recording, ended before its first sample.', formatNs],
      ['unattributed_unseen_ns', '… never seen', 'Part of it: the thread began and ended between two rounds.', formatNs],
      ['unattributed_blocked_ns', '… signal blocked', 'Part of it: the thread blocks our signal.', formatNs],
      ['unattributed_handler_ns', '… handler replaced', 'Part of it: the process has set its own handler for our signal.', formatNs],
      ['unattributed_stack_ns', '… no room on the stack', 'Part of it: the stack of the thread may have no room for a signal.', formatNs],
      ['timers_failed', 'Threads without a timer', 'The kernel made no CPU timer: the limit of queued signals is reached (ulimit -i). They are sampled by rounds.'],
      ['signals_late', 'Samples skipped', 'The last signal to the thread had not arrived yet.'],
      ['signal_blocked', 'Signal blocked', 'The thread blocks our signal, so it is sampled only while it waits.'],
      ['small_stack', 'Stack too small', 'A stack of the thread has no room for a signal, so it is sampled only while it waits.'],
      ['stray_stack', 'Stacks of unknown size', 'The thread runs coroutines on stacks whose end is unknown, and has no alternate signal stack. A signal could overwrite memory, so the thread is sampled only while it waits.'],
      ['parked_torn', 'Reads discarded', 'The thread woke up while its stack was read; tried again in the next round.'],
      ['ticks_late', 'Late rounds', 'A round began more than a period late: the machine was busy.'],
      ['fork_backoff', 'Paused for fork', 'No signals while a thread forks, so that the fork can finish.'],
      ['signals_failed', 'Signals refused', 'The kernel refused a signal, or dropped the data sent with it: its queue is full.'],
      ['handler_replaced', 'Handler replaced', 'The process has set its own handler for our signal: threads are sampled only while they wait.'],
      ['gaps', 'Suspensions', 'The whole process was stopped (SIGSTOP, freezer); that time is in no sample.'],
      ['gap_ns', 'Suspended for', 'Time in which no thread of the process could run.', formatNs],
      ['not_ready', 'Retried', 'Unwind information was still being compiled.'],
    ],
  },
  {
    group: 'target',
    title: 'Effect on the process',
    counters: [
      ['eintr_unrepairable', 'Interrupted calls', 'A system call returned EINTR because of us and could not be restarted.'],
      ['waits_interrupted', 'Woken', 'Threads that had just fallen asleep when our signal arrived; they went back to sleep.'],
      ['eintr_repaired', 'Restarted calls', 'Interrupted by our signal, and restarted before the process could notice.'],
    ],
  },
  {
    group: 'work',
    title: 'Work done',
    counters: [
      ['ticks', 'Rounds', 'How often the sampling thread checked all threads.'],
      ['signals_sent', 'Signals sent', 'To running threads without a CPU timer, one for each sample. Timers need none.'],
      ['signals_handled', 'Signals handled', 'Stacks that running threads took of themselves, in our signal handler.'],
      ['clocks_lent', 'Precise clocks', 'High-resolution timers for threads that run in step with the scheduler\'s tick; their CPU timers would expire only at ticks.'],
      ['parked_reads', 'Stacks read from outside', 'Stacks of waiting threads, read without waking them.'],
      ['unchanged', 'Unchanged', 'The thread had not run since the last check: its stack is still the same.'],
      ['codes', 'Functions read', 'Functions of interpreted programs whose names were read, each once.'],
      ['threads_exited', 'Threads ended', 'Threads that ended while recording.'],
      ['module_refreshes', 'Module lists read', 'After a library was loaded or unloaded.'],
    ],
  },
  {
    group: 'cost',
    title: 'Cost',
    counters: [
      ['engine_now', 'Sampling method', 'A timer on the CPU clock of each thread, or rounds of the sampling thread.', (value) => formatEngine(ENGINES[value] ?? value)],
      ['cpu_rate_mhz_now', 'Sampling rate', 'Samples of each thread per second of its CPU time.', (value) => formatRate(value / 1000)],
      ['rate_mhz_now', 'Rate of rounds', 'How often sleeping threads are checked.', (value) => formatRate(value / 1000)],
      ['budget_lowered', 'Rate lowered', 'How often a rate was lowered to stay within the budget: rounds first.'],
      ['budget_raised', 'Rate raised', 'How often it was raised again.'],
      ['handler_ns_total', 'In the signal handler', 'CPU time taken from the threads of the process.', formatNs],
      ['handler_ns_max', 'Longest single sample', 'The longest time that a sample delayed a thread.', formatNs],
      ['sampler_cpu_ns', 'In the sampling thread', 'CPU time of our own thread in the process.', formatNs],
      ['bytes_held', 'Memory used', 'Tables in the process; freed when we detach.', formatBytes],
      ['cfi_modules', 'Modules compiled', 'Modules whose unwind information was compiled.'],
      ['cfi_rows', 'Unwind rows', 'Rows of compiled unwind information.'],
      ['cfi_compile_ns', 'Compiling them took', 'Once for each module.', formatNs],
    ],
  },
];

/** Returns all counters of a status in groups: [{title, group, rows: [{name, label, text, value, shown}]}]. */
export function explainCounters(counters) {
  const left = new Map(Object.entries(counters));
  const groups = COUNTER_GROUPS.map(({ group, title, counters: known }) => ({
    group,
    title,
    rows: known
      .filter(([name]) => left.has(name))
      .map(([name, label, text, print = formatCount]) => {
        const value = left.get(name);
        left.delete(name);
        return { name, label, text, value, shown: print(value) };
      }),
  }));
  const unknown = [...left].map(([name, value]) => {
    return { name, label: name, text: '', value, shown: formatCount(value) };
  });
  if (unknown.length) groups.push({ group: 'other', title: 'Other', rows: unknown });
  return groups.filter(({ rows }) => rows.length);
}

/** Verdicts (model.Verdict) from the best to the worst. */
export const VERDICTS = [
  ['COMPLETE', 'Complete', 'Root reached by unwind information all the way.', 'good'],
  ['GUESSED', 'Complete, partly guessed', 'Root reached; at least one step by frame pointer.', 'fair'],
  ['TRUNCATED_DEPTH', 'Too deep', 'Deeper than the limit; the frames next to the root are missing.', 'bad'],
  ['NO_UNWIND_INFO', 'No unwind information', 'Stopped in code without unwind information.', 'bad'],
  ['BAD_MEMORY', 'Left the stack', 'Stopped at an address outside of the stack.', 'bad'],
  ['UNSUPPORTED_RULE', 'Rule not supported', 'Stopped at an unsupported unwind rule.', 'bad'],
  ['NO_STACK', 'No stack', 'CPU time that was counted, but never sampled.', 'none'],
];

/** Returns CPU time by verdict: {total, complete, rows: [{label, text, level, ns}]}. */
export function explainVerdicts(verdictNs) {
  const total = Object.values(verdictNs).reduce((sum, ns) => sum + ns, 0);
  const complete = (verdictNs.COMPLETE ?? 0) + (verdictNs.GUESSED ?? 0);
  const rows = VERDICTS.map(([name, label, text, level]) => {
    return { name, label, text, level, ns: verdictNs[name] ?? 0 };
  });
  return { total, complete, rows: rows.filter(({ ns }) => ns > 0) };
}

/** ManagedVerdict of model.py: name, label, meaning, level. */
export const PYTHON_VERDICTS = [
  ['EXACT', 'Exact', 'Each Python function stands above the native function that runs it.', 'good'],
  ['ENTERING', 'At a call', 'Exact; the innermost function was just being called or left.', 'good'],
  ['REPAIRED', 'Put together', 'Python was changing its list of functions; the parts were joined again.', 'good'],
  ['TORN', 'Cut', 'The list of functions changed while it was read: some are missing.', 'bad'],
  ['MISPLACED', 'Placed by order', 'Some functions may stand above the wrong native function.', 'fair'],
  ['DEPTH', 'Too deep', 'More functions than the limit: those at the root are missing.', 'bad'],
];

/** Returns CPU time with Python functions by verdict: {total, exact, rows: [{label, text, level, ns}]}. */
export function explainPython(verdictNs = {}) {
  const rows = PYTHON_VERDICTS.map(([name, label, text, level]) => {
    return { name, label, text, level, ns: verdictNs[name] ?? 0 };
  });
  const sum = (some) => some.reduce((found, { ns }) => found + ns, 0);
  return {
    total: sum(rows),
    exact: sum(rows.filter(({ level }) => level === 'good')),
    rows: rows.filter(({ ns }) => ns > 0),
  };
}

export const SOURCES = {
  symcache: ['full', 'names, inlined functions and lines'],
  symtab: ['names', 'function names'],
  dynsym: ['exported', 'exported names only'],
  'perf map': ['perf map', 'names that the runtime has written to a file'],
  interpreter: ['lines', 'names and lines that the interpreter itself has'],
  jitdump: ['jitdump', 'names that the runtime has written to a file'],
  none: ['none', 'no names: module+offset'],
  pending: ['reading', 'being read'],
};

/** Describes one module's symbols: {badge, text, level}. */
export function explainSource({ source, has_lines: hasLines }) {
  const [badge, text] = SOURCES[source] ?? [source, source];
  if (source === 'pending') return { badge, text, level: 'none' };
  if (source === 'none') return { badge, text, level: 'bad' };
  if (source === 'dynsym') return { badge, text, level: 'fair' };
  return { badge: hasLines ? 'lines' : badge, text, level: 'good' };
}

/**
 * Describes the modules' shares of the profile (web/encode_code.py, symbols): {total, named, lined, rows:
 * [{module, ns, share, parts: [[level, share of the module]], text, ...}]}, heaviest first.
 */
export function explainModules({ total_ns: total, modules }) {
  const rows = modules.map((each) => {
    const { self_ns: ns, named_ns: named, lined_ns: lined } = each;
    const text =
      ns > 0
        ? `${formatShare(named, ns)} with function names, ${formatShare(lined, ns)} with lines`
        : each.total_ns > 0
          ? `in the stacks of ${formatShare(each.total_ns, total)} of the time, as a caller`
          : '';
    const parts = ns > 0 ? [['good', lined / ns], ['fair', (named - lined) / ns], ['bad', (ns - named) / ns]] : [];
    return { ...each, ...explainSource(each), summary: text, parts: parts.filter(([, part]) => part > 0) };
  });
  const sum = (key) => modules.reduce((found, each) => found + each[key], 0);
  return { total, named: sum('named_ns'), lined: sum('lined_ns'), rows };
}

/** Returns whether a function has source lines and instructions to show. */
export function hasCode(f) {
  return Boolean(f) && !['syscall', 'synthetic', 'folded'].includes(f.kind);
}

/** Returns whether a function has instructions to show. */
export function hasAssembly(f) {
  return hasCode(f) && f.kind !== 'python';
}

/** Returns the words of the legend for an origin; "" for an unknown one. */
export function originLabel(origin) {
  return ORIGINS.find((each) => each.origin === origin)?.label ?? '';
}

const FRAME_KINDS = {
  inlined: ['inlined', 'Inlined into its caller by the compiler.'],
  'tail call': [
    'tail call',
    'Called the next function by a jump at its end, which left no frame. ' +
      'Restored from the call sites in the debug information, which allow only this path.',
  ],
  unknown: ['no symbol', 'There is no name for this address.'],
  syscall: ['system call', 'Where the thread waits, or spends its time, in the kernel.'],
  synthetic: ['not a function', ''],
  folded: ['folded', 'Functions that call each other, shown as one.'],
};
const SYNTHETIC = {
  '[unattributed]':
    'CPU time that was counted exactly, but never sampled: of threads that block signals, or end too soon.',
  '[waiting for a CPU]': 'The thread could run, but all CPUs that it may use were busy.',
  '[stack table full]': "Time whose stacks exceed flametap's memory limit.",
  '[truncated]': 'The parent of all stacks that were not unwound to their root.',
  '[no Python frames]': 'The time of all stacks in which no Python function was running.',
};

/** Describes a special kind of frame: {badge, text}; null for an ordinary function. */
export function explainKind({ kind, name }) {
  const known = FRAME_KINDS[kind];
  return known ? { badge: known[0], text: SYNTHETIC[name] ?? known[1] } : null;
}

/** Returns the share of one core that the profiler takes inside the process, 0 … 1. */
export function costShare({ counters, duration_ns: durationNs }) {
  if (!(durationNs > 0)) return 0;
  return ((counters.handler_ns_total ?? 0) + (counters.sampler_cpu_ns ?? 0)) / durationNs;
}

const COST_LIMIT = 0.01; // of one core: the default budget

/** Returns the facts in the footer of the page: [{id, level, text}]. */
export function summarise(status) {
  const verdicts = explainVerdicts(status.verdict_cpu_ns);
  const share = verdicts.total ? verdicts.complete / verdicts.total : 1;
  const lost = LOSSES.reduce((sum, [name]) => sum + (status.counters[name] ?? 0), 0);
  const eintr = status.counters.eintr_unrepairable ?? 0;
  const named = (status.symbols ?? []).filter(({ source }) => source !== 'none');
  const nameless = (status.symbols ?? []).length - named.length;
  const cost = costShare(status);
  const facts = [
    {
      id: 'stacks',
      level: share >= 0.99 ? 'good' : share >= 0.9 ? 'fair' : 'bad',
      text: verdicts.total
        ? `${formatShare(verdicts.complete, verdicts.total)} complete stacks`
        : 'no CPU time yet',
    },
    { id: 'lost', level: lost ? 'bad' : 'good', text: lost ? `${formatCount(lost)} lost` : 'nothing lost' },
    {
      id: 'names',
      level: nameless ? 'fair' : 'good',
      text: status.symbols_pending
        ? `${formatPlural(status.symbols_pending, 'name')} pending`
        : nameless
          ? `${formatCount(nameless)} of ${formatCount(named.length + nameless)} modules without names`
          : `${formatPlural(named.length, 'module')} named`,
    },
    {
      id: 'cost',
      level: cost <= COST_LIMIT ? 'good' : 'fair',
      text: `costs ${formatShare(cost, 1)} of a core`,
    },
  ];
  const python = explainPython(status.managed_verdict_cpu_ns);
  if (python.total) {
    const exact = python.exact / python.total;
    facts.splice(1, 0, {
      id: 'python',
      level: exact >= 0.99 ? 'good' : exact >= 0.9 ? 'fair' : 'bad',
      text: `${formatShare(python.exact, python.total)} exact Python stacks`,
    });
  }
  if (eintr) {
    facts.push({ id: 'eintr', level: 'bad', text: `${formatCount(eintr)} calls returned EINTR` });
  }
  return facts;
}

/** Says how long any thread held the GIL, and how long threads waited for it (model.ThreadInfo). */
export function describeGil(threads, durationNs) {
  const sum = (key) => threads.reduce((all, thread) => all + thread[key], 0);
  const held = Math.min(sum('gil_held_ns'), durationNs);
  const waiting = threads.filter((thread) => thread.gil_awaited_ns > 0).length;
  const waits = waiting
    ? `${formatPlural(waiting, 'thread')} waited for it, ${formatNs(sum('gil_awaited_ns'))} in all.`
    : 'No thread waited for it.';
  return `The GIL was held ${formatShare(held, durationNs)} of the time. ${waits}`;
}
