// What a report shows over time: lanes in as many bins as are wanted, and heat maps. No DOM.

const FIRST = '#'.charCodeAt(0); // as in profiler/timeline/encode_lanes.py
const LEAST_LANES = 4; // as in profiler/timeline/lanes.py

/** Finds the answers in the times of a report (profiler/export/report_time.py): of all, and of a range. */
export class Times {
  /** @param times [{start_ns, end_ns, lanes, heat}], the finer ones last */
  constructor(times) {
    this.times = times;
  }

  /** Returns the finest time that has all of a query's. */
  of(query) {
    const from = query.has('from') ? 1e6 * Number(query.get('from')) : 0;
    const to = query.has('to') ? 1e6 * Number(query.get('to')) : Infinity;
    const isIn = ({ start_ns: start, end_ns: end }) => from >= Math.floor(start / 1e6) * 1e6 && to <= Math.ceil(end / 1e6) * 1e6;
    return { time: this.times.findLast(isIn) ?? this.times[0], from, to };
  }

  /** Answers GET heat. @param query URLSearchParams */
  heat(query) {
    return this.of(query).time.heat[query.get('kind') ?? 'cpu'];
  }

  /** Answers GET lanes. @param query URLSearchParams */
  lanes(query) {
    const { time, from, to } = this.of(query);
    const { lanes } = time;
    const { start_ns: start, step_ns: step, count } = lanes.bins;
    const first = Math.max(0, Math.min(count - 1, Math.floor((from - start) / step)));
    const end = Math.min(count, Math.max(first + 1, Math.ceil((Math.min(to, lanes.duration_ns) - start) / step)));
    const cut = cutFor(lanes.bins, first, end, Number(query.get('bins') ?? 600));
    const all = lanes.lanes;
    const most = query.get('idle') ? all.length : Math.max(lanes.n_busy, LEAST_LANES);
    const skip = Number(query.get('skip') ?? 0);
    const chosen = all.slice(0, most).slice(skip, skip + Number(query.get('lanes') ?? LEAST_LANES));
    const others = all.filter((lane) => !chosen.includes(lane));
    if (chosen.length && others.length === 1 && !lanes.rest) chosen.push(others.pop()); // as profiler/timeline/lanes.py
    const whole = cutFor(lanes.overview_bins, 0, lanes.overview_bins.count, Number(query.get('overview') || 720));
    return {
      ...lanes,
      bins: cut.bins,
      all: shortened(lanes.all, cut),
      lanes: chosen.map((lane) => shortened(lane, cut)),
      rest: shortened(together(others, lanes.rest, count), cut),
      gil: shortened(lanes.gil, cut),
      overview_bins: whole.bins,
      overview: shortened(lanes.overview, whole),
    };
  }
}

/** Returns how bins become at most so many: the first, the end, how many become one, and the new bins. */
function cutFor(bins, first, end, most) {
  let levels = 0;
  while (Math.ceil((end - first) / 2 ** levels) > most) levels++;
  const group = 2 ** levels;
  const count = Math.ceil((end - first) / group);
  const start = bins.start_ns + first * bins.step_ns;
  return { first, end, group, bins: { start_ns: start, step_ns: bins.step_ns * group, level: bins.level + levels, count } };
}

/** Returns a lane with its bins put together: averages. */
function shortened(lane, { first, end, group }) {
  if (!lane) return lane;
  const planes = {};
  for (const [activity, text] of Object.entries(lane.planes)) {
    const parts = [];
    for (let at = first; at < end; at += group) {
      let sum = 0;
      for (let bin = at; bin < Math.min(end, at + group); bin++) sum += text.charCodeAt(bin) - FIRST;
      parts.push(FIRST + Math.round(sum / (Math.min(end, at + group) - at)));
    }
    planes[activity] = String.fromCharCode(...parts);
  }
  return { ...lane, planes, scale_ns: lane.scale_ns * group };
}

/** Returns the lane of several threads together; null for none. @param rest a lane of still others, or null */
function together(lanes, rest, count) {
  const parts = [...lanes.map((lane) => ({ ...lane, threads: 1 })), ...(rest ? [rest] : [])];
  const threads = parts.reduce((sum, part) => sum + part.threads, 0);
  if (!threads) return null;
  const sums = {};
  for (const part of parts) {
    for (const [activity, text] of Object.entries(part.planes)) {
      const plane = (sums[activity] ??= new Float64Array(count));
      for (let bin = 0; bin < count; bin++) plane[bin] += ((text.charCodeAt(bin) - FIRST) * part.threads) / threads;
    }
  }
  const planes = {};
  for (const [activity, plane] of Object.entries(sums)) {
    planes[activity] = Array.from(plane, (share) => String.fromCharCode(FIRST + Math.round(share))).join('');
  }
  const sumsNs = parts[0].sums_ns.map((_, at) => parts.reduce((sum, part) => sum + part.sums_ns[at], 0));
  const scale = parts.reduce((sum, part) => sum + part.scale_ns, 0);
  return { planes, sums_ns: sumsNs, scale_ns: scale, threads };
}
