// Explains counters, verdicts and symbol sources in plain words, and rates how far the graph can be
// trusted. No DOM.

import { formatBytes, formatCount, formatNs, formatPlural, formatPoints, formatRate, formatShare } from './format.js';
import { ORIGINS } from './color.js';
import { LOSSES } from './losses.js';

const ENGINES = ['rounds', 'cpu-timers']; // agent/abi.h, enum engine
const ON_DEVICE = 'looks'; // model.LOOKS
const ENGINE_TEXT = { rounds: 'looks at fixed times', 'cpu-timers': 'CPU timers', [ON_DEVICE]: 'looks from elsewhere', '': '–' };

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
      ['ring_full', 'Data dropped', 'flametap did not fetch the data of the process fast enough: this often.'],
      ...LOSSES,
      ['samples_lost', 'Samples not fetched in time', 'Our thread in the process was late. Their CPU time is added to the thread\'s next sample.'],
    ],
  },
  {
    group: 'imprecise',
    title: 'Less precise',
    counters: [
      ['unattributed_cpu_ns', 'CPU time without a stack', 'Counted exactly, but never sampled: [unattributed].', formatNs],
      ['unattributed_ended_ns', '… no sample yet', 'Part of it: the thread, or the recording, ended before its first sample.', formatNs],
      ['unattributed_unseen_ns', '… never seen', 'Part of it: the thread began and ended between two looks at the list of threads.', formatNs],
      ['unattributed_early_ns', '… before the attach', 'Part of it: what processes used that began meanwhile, until they were attached to.', formatNs],
      ['unattributed_short_ns', '… short-lived', 'Part of it: of processes that ended before they could be attached to.', formatNs],
      ['unattributed_blocked_ns', '… signal blocked', 'Part of it: the thread blocks our signal.', formatNs],
      ['unattributed_handler_ns', '… handler replaced', 'Part of it: the process has set its own handler for our signal.', formatNs],
      ['unattributed_stack_ns', '… no room on the stack', 'Part of it: the stack of the thread may have no room for a signal.', formatNs],
      ['timers_failed', 'Threads without a timer', 'The kernel made no CPU timer: the limit of queued signals is reached (ulimit -i). They are sampled at fixed times instead.'],
      ['signals_late', 'Samples skipped', 'The thread had not got our last signal yet.'],
      ['signal_blocked', 'Signal blocked', 'The thread blocks our signal and was not met while it ran, so it is sampled only while it waits.'],
      ['small_stack', 'Stack too small', 'A stack of the thread has no room for a signal, so it is sampled only while it waits.'],
      ['stray_stack', 'Stacks of unknown size', 'The thread runs coroutines on stacks whose end is unknown, and has no alternate signal stack. A signal could overwrite memory, so the thread is sampled only while it waits.'],
      ['parked_torn', 'Readings thrown away', 'The thread woke up while its stack was read; it was tried again a moment later.'],
      ['ticks_late', 'Late checks', 'Sleeping threads were checked late: the machine was busy.'],
      ['fork_backoff', 'Paused for fork', 'No signals while a thread forks, so that the fork can finish.'],
      ['signals_failed', 'Signals refused', 'The kernel refused a signal, or dropped the data sent with it: its queue is full.'],
      ['handler_replaced', 'Handler replaced', 'The process has set its own handler for our signal: threads are sampled only while they wait.'],
      ['gaps', 'Suspensions', 'The whole process was stopped (SIGSTOP, freezer); that time is in no sample.'],
      ['gap_ns', 'Suspended for', 'Time in which no thread of the process could run.', formatNs],
      ['not_ready', 'Taken again', 'What is needed to read the stack was still being prepared.'],
    ],
  },
  {
    group: 'target',
    title: 'Effect on the process',
    counters: [
      ['eintr_unrepairable', 'Interrupted calls', 'A system call returned EINTR because of us and could not be restarted.'],
      ['waits_interrupted', 'Woken for a moment', 'The thread had just fallen asleep when our signal arrived, and went back to sleep. Harmless.'],
      ['threads_admitted', 'Signal masks changed', 'Threads that block all signals: ours was let in, so that they could be sampled. Their masks are put back at the end.'],
      ['eintr_repaired', 'Restarted calls', 'System calls that our signal interrupted, and that began again before the process could notice. Harmless.'],
    ],
  },
  {
    group: 'work',
    title: 'Work done',
    counters: [
      ['ticks', 'Checks', 'How often the sampling thread looked at all threads.'],
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
      ['engine_now', 'Sampling method', 'A timer on the CPU clock of each thread, or looks at all threads at fixed times.', (value) => formatEngine(ENGINES[value] ?? value)],
      ['cpu_rate_mhz_now', 'Sampling rate', 'Samples of each thread per second of its CPU time.', (value) => formatRate(value / 1000)],
      ['rate_mhz_now', 'Rate of checks', 'How often sleeping threads are looked at.', (value) => formatRate(value / 1000)],
      ['budget_lowered', 'Rate lowered', 'How often a rate was lowered to stay within the budget.'],
      ['budget_raised', 'Rate raised', 'How often it was raised again.'],
      ['handler_ns_total', 'In the signal handler', 'CPU time taken from the threads of the process.', formatNs],
      ['handler_ns_max', 'Longest single sample', 'The longest time that a sample delayed a thread.', formatNs],
      ['sampler_cpu_ns', 'In the sampling thread', 'CPU time of our own thread in the process.', formatNs],
      ['once_cpu_ns', '… once', 'Part of it: reading the program and the first stack of each thread. The budget is for the rest.', formatNs],
      ['bytes_held', 'Memory used', 'Tables in the process; freed when we detach.', formatBytes],
      ['cfi_modules', 'Modules prepared', 'Programs and libraries whose unwind information was made ready for use.'],
      ['cfi_rows', 'Rows of unwind information', 'Each says how to find the caller from one range of addresses.'],
      ['cfi_compile_ns', 'Preparing them took', 'Once for each module.', formatNs],
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
  ['COMPLETE', 'Complete', 'Reaches the first function of the thread; every step is certain.', 'good'],
  ['GUESSED', 'Complete, partly guessed', 'Reaches the first function; at least one step is by frame pointer, which may skip a caller.', 'fair'],
  ['SCANNED', 'With a guessed caller', 'Reaches the first function; the caller below [guessed] is the first one that was possible.', 'fair'],
  ['TRUNCATED_DEPTH', 'Too deep', 'Deeper than the limit; the outermost callers are missing.', 'bad'],
  ['NO_UNWIND_INFO', 'No unwind information', 'Ends in code that does not tell who called it.', 'bad'],
  ['BAD_MEMORY', 'Left the stack', 'Ends at an address that is not in the stack.', 'bad'],
  ['UNSUPPORTED_RULE', 'Not understood', 'Ends at unwind information that flametap does not support.', 'bad'],
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
  ['EXACT', 'Exact', 'Each interpreted function stands above the native function that runs it.', 'good'],
  ['ENTERING', 'At a call', 'Exact; the innermost function was just being called or left.', 'good'],
  ['REPAIRED', 'Put together', 'The interpreter was changing its list of functions; the parts were joined again.', 'good'],
  ['NEAREST', 'Nearly exact', 'Java: the compiler noted nothing for the innermost instruction. Line and inlined methods are those of the next place it noted.', 'fair'],
  ['TORN', 'Cut', 'The list of functions changed while it was read: some are missing.', 'bad'],
  ['MISPLACED', 'Placed by order', 'Some functions may stand above the wrong native function.', 'fair'],
  ['DEPTH', 'Too deep', 'More functions than the limit: the outermost are missing.', 'bad'],
];

/** Returns CPU time with interpreted functions by verdict: {total, exact, whole, rows: [{label, text, level, ns}]}; whole is
 * exact, and what lacks nothing but has inlined methods or a line nearby. */
export function explainPython(verdictNs = {}) {
  const rows = PYTHON_VERDICTS.map(([name, label, text, level]) => {
    return { name, label, text, level, ns: verdictNs[name] ?? 0 };
  });
  const sum = (some) => some.reduce((found, { ns }) => found + ns, 0);
  return {
    total: sum(rows),
    exact: sum(rows.filter(({ level }) => level === 'good')),
    whole: sum(rows.filter(({ name, level }) => level === 'good' || name === 'NEAREST')),
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
  '[kernel thread]':
    'A thread of the kernel that works for the program (io_uring, vhost). Its CPU time is counted; it has no stack of the program.',
  '[guessed]':
    'The code that was called here does not tell who called it. What stands as its caller is the first function that is possible: ' +
    'others may be missing between, or it may be another one.',
  '[waiting for a CPU]': 'The thread could run, but all CPUs that it may use were busy.',
  '[stack table full]': "Time whose stacks exceed flametap's memory limit.",
  '[truncated]': 'The parent of all stacks whose outermost callers are not known.',
  '[no Python frames]': 'The time of all stacks in which no Python function was running.',
};

/** Describes a special kind of frame: {badge, text}; null for an ordinary function. */
export function explainKind({ kind, name }) {
  const known = FRAME_KINDS[kind];
  return known ? { badge: known[0], text: SYNTHETIC[name] ?? known[1] } : null;
}

/** Returns the share of one core that the profiler takes inside the process, 0 … 1, without what it does once. */
export function costShare({ counters, duration_ns: allNs, paused_ns: pausedNs = 0 }) {
  const durationNs = allNs - pausedNs;
  if (!(durationNs > 0)) return 0;
  const { handler_ns_total: handlerNs = 0, sampler_cpu_ns: samplerNs = 0, once_cpu_ns: onceNs = 0 } = counters;
  return (handlerNs + Math.max(0, samplerNs - onceNs)) / durationNs;
}

const COST_LIMIT = 0.01; // of one core: the default budget

const MUCH_NAMELESS = 0.05; // of the time that is shown
const MANY_NAMELESS = 0.2; // of the frames that are shown

/**
 * Returns by how much a share may be off by chance, 19 times out of 20; null if that is not known.
 *
 * @param sampleNs what a sample stands for. They are taken as drawn at random; those of a clock vary less.
 */
export function marginOf(ns, totalNs, sampleNs) {
  if (!(totalNs > 0 && sampleNs > 0)) return null;
  const share = Math.min(1, ns / totalNs);
  return 2 * Math.sqrt((share * (1 - share)) / (totalNs / sampleNs));
}

/** Returns what a sample of a clock's time stands for, nanoseconds; 0 where that is not known. */
export function sampleNs(status, clock) {
  const hz = clock === 'cpu' ? status?.effective_rate_hz : 0;
  return hz > 0 ? 1e9 / hz : 0;
}

/** Says whether the names of a view (layout.BoxView) are known: {level, text}. */
function explainNames(status, view) {
  const { nameless_ns: nameless, nameless_frames: frames = 0, total_ns: total } = view;
  const { symbols_pending: pending } = status;
  if (pending) return { level: 'good', text: `${formatPlural(pending, 'name')} still being read` };
  const level = nameless > MUCH_NAMELESS * total || frames > MANY_NAMELESS ? 'fair' : 'good';
  if (!nameless && !frames) return { level, text: 'all functions named' };
  const parts = [];
  if (nameless) parts.push(`${formatShare(nameless, total)} without names`);
  if (frames) parts.push(`${formatShare(frames, 1)} of all frames have no name`);
  return { level, text: parts.join(', ') };
}

/**
 * Returns the facts in the footer of the page: [{id, level, text}].
 *
 * @param view {nameless_ns, nameless_frames, total_ns} of what is shown; null before there is anything
 */
export function summarise(status, view = null) {
  const names = view?.total_ns > 0 ? [{ id: 'names', ...explainNames(status, view) }] : [];
  if (status.source) return [{ id: 'source', level: 'fair', text: `flametap did not take these stacks (${status.source})` }, ...names];
  const verdicts = explainVerdicts(status.verdict_cpu_ns);
  const share = verdicts.total ? verdicts.complete / verdicts.total : 1;
  const lost = LOSSES.reduce((sum, [name]) => sum + (status.counters[name] ?? 0), 0);
  const eintr = status.counters.eintr_unrepairable ?? 0;
  const cost = costShare(status);
  const facts = [
    {
      id: 'stacks',
      isEmpty: !verdicts.total,
      level: share >= 0.99 ? 'good' : share >= 0.9 ? 'fair' : 'bad',
      text: verdicts.total
        ? `${formatShare(verdicts.complete, verdicts.total)} complete stacks`
        : 'no CPU time yet',
    },
    { id: 'lost', level: lost ? 'bad' : 'good', text: lost ? `${formatCount(lost)} lost` : 'nothing lost' },
    ...names,
    {
      id: 'cost',
      level: cost <= COST_LIMIT && status.engine !== ON_DEVICE ? 'good' : 'fair',
      text: status.engine === ON_DEVICE ? 'cost not known' : `costs ${formatShare(cost, 1)} of a core`,
    },
  ];
  const python = explainPython(status.managed_verdict_cpu_ns);
  if (python.total) {
    const whole = python.whole / python.total;
    facts.splice(2, 0, {
      id: 'python',
      level: whole >= 0.99 ? 'good' : whole >= 0.9 ? 'fair' : 'bad',
      text: `${formatShare(python.whole, python.total)} ${python.whole > python.exact ? 'whole' : 'exact'} ${languagesOf(status)} stacks`,
    });
  }
  if (eintr) {
    facts.push({ id: 'eintr', level: 'bad', text: `${formatPlural(eintr, 'system call')} interrupted` });
  }
  return facts;
}

/** Says in one sentence how far a recording can be trusted, by the facts of summarise(): {level, text}. */
export function explainTrust(facts) {
  if (facts.some(({ isEmpty }) => isEmpty)) return { level: 'none', text: 'There is no CPU time yet to judge by.' };
  const those = (wanted) => facts.filter(({ id, level }) => level === wanted && id !== 'cost').map(({ text }) => text);
  const bad = those('bad');
  if (bad.length) return { level: 'bad', text: `With care: ${[...bad, ...those('fair')].join('; ')}.` };
  const fair = those('fair');
  if (fair.length) return { level: 'fair', text: `Largely, but mind: ${fair.join('; ')}.` };
  return { level: 'good', text: `Fully: ${those('good').join('; ')}.` };
}

/** Says how precise shares of the CPU time are; "" before there is any. */
export function explainPrecision(totalNs, sample) {
  if (!(totalNs > 0 && sample > 0)) return '';
  const points = (share) => `± ${formatPoints(marginOf(share, 1, sample / totalNs))}`;
  const samples = formatPlural(Math.max(1, totalNs / sample), 'sample');
  return `${samples} are shown: 19 times out of 20, a share of 50 % is right to ${points(0.5)} percentage points, one of 1 % to ${points(0.01)}.`;
}

/** Names the languages of interpreted functions (model.Status): "Python", "Java and Ruby". */
export function languagesOf(status) {
  return (status.languages ?? []).join(' and ') || 'Python';
}

/** Says where a thread is now (model.ThreadInfo, or a group of web/encode_threads.py): {text, title, isQuiet}. */
export function describeWait(thread, status) {
  if (thread.exited) return { text: 'ended', title: '', isQuiet: true };
  if (status?.state === 'ended') return { text: '–', title: 'The recording has ended.', isQuiet: true };
  if (thread.is_mixed) return { text: 'various', title: '', isQuiet: true };
  if (thread.waits_in) {
    return { text: thread.waits_in, title: 'The system call in which it waits', isQuiet: false };
  }
  if (status?.state === 'paused') return { text: '–', title: 'Not looked at while paused.', isQuiet: true };
  if (thread.signals_blocked) {
    return { text: 'running or waiting', title: 'This thread blocks signals, so it is seen only while it waits.', isQuiet: true };
  }
  return { text: 'running', title: '', isQuiet: true };
}

/** Says how long any thread held the GIL, and how long threads waited for it (web/encode_threads.py). */
export function describeGil({ held_ns: heldNs, awaited_ns: awaitedNs, waiting }, durationNs) {
  const waits = waiting
    ? `${formatPlural(waiting, 'thread')} waited for it, ${formatNs(awaitedNs)} in all.`
    : 'No thread waited for it.';
  return `The GIL was held ${formatShare(Math.min(heldNs, durationNs), durationNs)} of the time. ${waits}`;
}
