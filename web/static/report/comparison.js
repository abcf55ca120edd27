// Compares the two sides of a joined tree in a report, as profiler/tree/comparison.py does for the server. No DOM.

const LIKELY = 0.05; // of the adjusted probability that there is no change
const CERTAIN = 0.001;

/**
 * Returns what the weights of both sides are compared by, as web/encode.py has it.
 *
 * @param lengthsNs the time that is counted here and there
 * @param sampleNs what one sample stands for
 */
export function sizesOf(tree, { lengthsNs, sampleNs, isShare }) {
  const [here, there] = [tree.sides.here[0], tree.sides.there[0]];
  const [hereNs, thereNs] = isShare ? [here, there] : lengthsNs;
  return { here_ns: hereNs, there_ns: thereNs, here_total_ns: here, there_total_ns: there, sample_ns: sampleNs, is_share: isShare };
}

/** Returns how far two weights differ, in standard deviations; above 0 where there is more here. */
export function zScore(here, there, { here_ns: hereNs, there_ns: thereNs, sample_ns: sampleNs, is_share: isShare }) {
  if (Math.min(hereNs, thereNs) <= 0) return 0;
  const ratio = hereNs / thereNs;
  const [a, b] = [here / sampleNs, there / sampleNs];
  if (a < 1 && b < 1) return 0;
  const z = (2 * (Math.sqrt(a + 0.375) - Math.sqrt((b + 0.375) * ratio))) / Math.sqrt(1 + ratio);
  if (!isShare) return z;
  const left = 1 - (here + there) / (hereNs + thereNs);
  return left > 1e-9 ? z / Math.sqrt(left) : 0;
}

/** Returns how sure each change is: 0 noise, 1 likely, 2 certain; negative for less. */
export function grades(scores) {
  const count = scores.length;
  const p = scores.map(twoSided);
  const order = p.map((_, at) => at).sort((a, b) => p[a] - p[b]);
  const found = new Array(count).fill(0);
  let least = 1;
  for (let rank = count; rank > 0; rank--) {
    const at = order[rank - 1];
    least = Math.min(least, (p[at] * count) / rank);
    const sure = Number(least < LIKELY) + Number(least < CERTAIN);
    found[at] = scores[at] < 0 && sure ? -sure : sure;
  }
  return found;
}

/** Returns the probability of a deviation at least so far from 0 (Abramowitz and Stegun, 7.1.26). */
function twoSided(z) {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return series * Math.exp(-x * x);
}

/**
 * Returns the functions below a node: [{id, selfHere, selfThere, totalHere, totalThere, selfGrade, totalGrade}], first
 * those whose change is more than chance, the greatest first.
 *
 * @param order "self" or "total"
 * @param isMatch of each function; null for all
 * @param spreads [own, total] by function: how many times more its weight varies than independent samples do
 */
export function functionChanges(tree, below, order, sizes, isMatch, [own, all]) {
  const { selfHere, here, there } = tree.sides;
  const rows = new Map();
  for (let rank = tree.rank[below]; rank < tree.end[below]; rank++) {
    const node = tree.depthFirst[rank];
    const id = tree.function[node];
    if (id < 0 || (isMatch && !isMatch[id])) continue;
    let row = rows.get(id);
    if (!row) rows.set(id, (row = { id, selfHere: 0, selfThere: 0, totalHere: 0, totalThere: 0, end: 0 }));
    row.selfHere += selfHere[node];
    row.selfThere += tree.selfThere[node];
    if (rank < row.end) continue;
    row.totalHere += here[node];
    row.totalThere += there[node];
    row.end = tree.end[node];
  }
  const found = [...rows.values()];
  const self = grades(found.map((row) => zScore(row.selfHere, row.selfThere, sizes) / own[row.id]));
  const total = grades(found.map((row) => zScore(row.totalHere, row.totalThere, sizes) / all[row.id]));
  const isSelf = order === 'self';
  found.forEach((row, at) => {
    const [hereNs, thereNs] = isSelf ? [row.selfHere, row.selfThere] : [row.totalHere, row.totalThere];
    const size = Math.abs(hereNs / Math.max(sizes.here_ns, 1) - thereNs / Math.max(sizes.there_ns, 1));
    Object.assign(row, { selfGrade: self[at], totalGrade: total[at], size, isSure: (isSelf ? self : total)[at] !== 0 });
  });
  return found.sort((a, b) => b.isSure - a.isSure || b.size - a.size || a.id - b.id);
}
