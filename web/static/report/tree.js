// A call tree from a report: unpacked, with what views are computed from. No DOM.
//
// profiler/tree/packed_tree.py has the format, tree_view.py the same computations for the server.

export const MIN_BOX_PX = 0.5; // narrower boxes are invisible; a run of them is one box
const MAX_RUN_PX = 80; // as in profiler/tree/tree_view.py
const BIG_PARENT = 0.25;

/** Reads unsigned LEB128 numbers up to 2^53 one after the other. */
class Numbers {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  next() {
    let value = 0;
    let scale = 1;
    for (;;) {
      if (this.at >= this.bytes.length) throw new Error('The report is damaged: its data ends too early.');
      const byte = this.bytes[this.at++];
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }

  column(make, length) {
    const column = make(length);
    for (let at = 0; at < length; at++) column[at] = this.next();
    return column;
  }
}

const ints = (length) => new Int32Array(length);
const floats = (length) => new Float64Array(length);

/** A call tree in columns, in breadth-first order: the children of a node are adjacent. Node 0 is the root. */
export class Tree {
  /**
   * @param bytes as packed
   * @param isJoined whether it is of two recordings: it has the own weights on the other side, too
   */
  constructor(bytes, { isJoined = false } = {}) {
    const numbers = new Numbers(bytes);
    this.count = numbers.next();
    const read = (make) => numbers.column(make, this.count);
    Object.assign(this, { childCount: read(ints), function: read(ints), selfNs: read(floats) });
    Object.assign(this, { line: read(ints), lineFile: read(ints), chainEnd: read(ints) });
    if (isJoined) this.selfThere = read(floats);
    for (let node = 0; node < this.count; node++) {
      this.function[node]--; // -1 for the root
      this.chainEnd[node]--; // -1 where no folded chain ends
    }
    this.hasChains = this.chainEnd.some((id) => id >= 0);
    this.findChildren();
    this.sumUp();
    if (isJoined) this.sides = { selfHere: this.selfNs, here: this.totalNs, there: this.totals(this.selfThere) };
    this.rankDepthFirst();
  }

  findChildren() {
    const { count, childCount } = this;
    Object.assign(this, { firstChild: ints(count), parent: ints(count).fill(-1), depth: ints(count) });
    let next = 1;
    for (let node = 0; node < count; node++) {
      this.firstChild[node] = next;
      const end = next + childCount[node];
      if (end > count) throw new Error('The report is damaged: its tree has too few nodes.');
      for (; next < end; next++) {
        this.parent[next] = node;
        this.depth[next] = this.depth[node] + 1;
      }
    }
  }

  sumUp() {
    const { count, parent } = this;
    this.totalNs = this.totals(this.selfNs);
    this.xInParentNs = floats(count); // the left edge, from its parent's
    for (let node = 2; node < count; node++) {
      const isSibling = parent[node] === parent[node - 1];
      this.xInParentNs[node] = isSibling ? this.xInParentNs[node - 1] + this.totalNs[node - 1] : 0;
    }
  }

  /** Returns for each node the sum of a column of it and all below it. */
  totals(own) {
    const totals = own.slice();
    for (let node = this.count - 1; node > 0; node--) totals[this.parent[node]] += totals[node];
    return totals;
  }

  /** Returns a joined tree whose weights are those of both sides, the other side's times `scale`. */
  widened(scale) {
    const wide = Object.assign(Object.create(Tree.prototype), this);
    wide.selfNs = this.selfNs.map((ns, node) => ns + Math.round(this.selfThere[node] * scale));
    wide.sumUp();
    return wide;
  }

  /** Node b is a or below it if rank[a] <= rank[b] < end[a]. */
  rankDepthFirst() {
    const { count, parent } = this;
    const size = ints(count).fill(1);
    for (let node = count - 1; node > 0; node--) size[parent[node]] += size[node];
    Object.assign(this, { rank: ints(count), end: ints(count), depthFirst: ints(count) });
    for (let node = 0; node < count; node++) {
      if (node > 0) {
        const isSibling = node > 1 && parent[node] === parent[node - 1];
        this.rank[node] = isSibling ? this.end[node - 1] : this.rank[parent[node]] + 1;
      }
      this.end[node] = this.rank[node] + size[node];
      this.depthFirst[this.rank[node]] = node;
    }
  }

  /** Returns the nodes along a path: the root, then as far as it exists. Each of its elements is a list of functions. */
  resolve(path) {
    const nodes = [0];
    for (const wanted of path) {
      const above = nodes[nodes.length - 1];
      const first = this.firstChild[above];
      let found = -1;
      for (let child = first; child < first + this.childCount[above]; child++) {
        if (wanted.includes(this.function[child])) found = child;
      }
      if (found < 0) break;
      nodes.push(found);
    }
    return nodes;
  }

  /** Returns the children of a node, the heaviest first. */
  childrenByWeight(node) {
    const first = this.firstChild[node];
    const children = Array.from({ length: this.childCount[node] }, (_, at) => first + at);
    return children.sort((a, b) => this.totalNs[b] - this.totalNs[a]);
  }

  /** Returns the functions from the root's child to a node. */
  pathOf(node) {
    const path = [];
    for (let at = node; at > 0; at = this.parent[at]) path.push(this.function[at]);
    return path.reverse();
  }

  /** Returns the outermost nodes below `below` whose function matches, heaviest first. */
  matches(isMatch, below) {
    const found = [];
    let end = 0;
    for (let rank = this.rank[below]; rank < this.end[below]; rank++) {
      const node = this.depthFirst[rank];
      if (rank < end || this.function[node] < 0 || !isMatch[this.function[node]]) continue;
      found.push(node);
      end = this.end[node];
    }
    return found.sort((a, b) => this.totalNs[b] - this.totalNs[a]);
  }

  /**
   * Returns the functions below a node, heaviest first: [{id, selfNs, totalNs}]. A total counts recursion once.
   *
   * @param isMatch of each function; null for all
   */
  functionsBelow(below, order, isMatch) {
    const rows = new Map();
    for (let rank = this.rank[below]; rank < this.end[below]; rank++) {
      const node = this.depthFirst[rank];
      const id = this.function[node];
      if (id < 0 || (isMatch && !isMatch[id])) continue;
      let row = rows.get(id);
      if (!row) rows.set(id, (row = { id, selfNs: 0, totalNs: 0, end: 0 }));
      row.selfNs += this.selfNs[node];
      if (rank < row.end) continue;
      row.totalNs += this.totalNs[node];
      row.end = this.end[node];
    }
    const [first, second] = order === 'self' ? ['selfNs', 'totalNs'] : ['totalNs', 'selfNs'];
    return [...rows.values()].sort((a, b) => b[first] - a[first] || b[second] - a[second] || a.id - b.id);
  }

  /**
   * Returns the boxes to draw when `zoom` is as wide as the canvas: {rows: [[box]], zoomBox, deepestRow};
   * a box: {node (-1: a run of narrow ones), first (node), parent, xNs, totalNs, hidden}. With a `run`, only these
   * children of `zoom` are shown, and fill the width.
   */
  boxes(zoom, widthPx, lastRow, run = null) {
    const wholeNs = run ? this.placeOfRun(run).total_ns : this.totalNs[zoom];
    const leastNs = Math.max(1, (MIN_BOX_PX * wholeNs) / Math.max(widthPx, 1));
    const scale = { wholeNs, leastNs, mostNs: (leastNs * MAX_RUN_PX) / MIN_BOX_PX };
    const boxes = [];
    const chain = [zoom];
    while (this.parent[chain[0]] >= 0) chain.unshift(this.parent[chain[0]]);
    let xNs = 0;
    for (const node of chain) {
      xNs += this.xInParentNs[node];
      boxes.push({ node, parent: boxes.length - 1, row: boxes.length, xNs, totalNs: this.totalNs[node], hidden: 0 });
    }
    const zoomBox = boxes.length - 1;
    let count = boxes.length;
    let row = [{ ...boxes[zoomBox], at: zoomBox }];
    let depth = zoomBox;
    for (;;) {
      const only = depth === zoomBox ? run : null;
      const below = row.flatMap((box) => (box.node < 0 ? [] : this.boxesBelow(box, scale, only)));
      if (!below.length) break;
      depth++;
      for (const box of below) Object.assign(box, { at: count++, row: depth });
      if (depth <= lastRow) boxes.push(...below);
      row = below;
    }
    return { boxes, zoomBox, deepestRow: depth };
  }

  /** Returns the boxes of a node's children. Neighbours that are each too narrow are one box together. */
  boxesBelow({ node: above, xNs, at: parent }, scale, only = null) {
    const found = [];
    const [first, end] = only ?? [this.firstChild[above], this.firstChild[above] + this.childCount[above]];
    const leastNs = this.totalNs[above] >= BIG_PARENT * scale.wholeNs ? 1 : scale.leastNs;
    const add = (node, totalNs, count) => {
      if (totalNs < leastNs) return;
      const left = xNs + this.xInParentNs[node];
      found.push({ node: count > 1 ? -1 : node, first: node, parent, xNs: left, totalNs, hidden: count > 1 ? count : 0 });
    };
    let run = first; // where the narrow neighbours begin
    for (let node = first; node <= end; node++) {
      if (node < end && this.totalNs[node] < scale.leastNs) continue;
      for (const [start, totalNs, count] of this.split(run, node, scale.mostNs)) add(start, totalNs, count);
      if (node < end) add(node, this.totalNs[node], 1);
      run = node + 1;
    }
    return found;
  }

  /** Splits neighbours into even parts of at most `mostNs`: [first node, weight, number of nodes] each. */
  split(first, end, mostNs) {
    let whole = 0;
    for (let node = first; node < end; node++) whole += this.totalNs[node];
    const partNs = Math.max(1, whole / Math.ceil(Math.max(whole, 1) / mostNs));
    const parts = [];
    let before = 0;
    let last = -1;
    for (let node = first; node < end; node++) {
      const part = Math.floor((before + this.totalNs[node] / 2) / partNs);
      if (part !== last) parts.push([node, 0, 0]);
      parts[parts.length - 1][1] += this.totalNs[node];
      parts[parts.length - 1][2]++;
      before += this.totalNs[node];
      last = part;
    }
    return parts;
  }

  /** Returns the children of a node from one function to another: [first, one past the last]; null for none. */
  resolveRun(node, [from, to]) {
    let found = null;
    for (let child = this.firstChild[node]; child < this.firstChild[node] + this.childCount[node]; child++) {
      if (this.function[child] === from || this.function[child] === to) found = [found?.[0] ?? child, child + 1];
    }
    return found;
  }

  /** Returns the place of neighbouring children: {x_ns, total_ns, count}. */
  placeOfRun([first, end]) {
    const place = { x_ns: 0, total_ns: 0, count: end - first };
    for (let node = first; node > 0; node = this.parent[node]) place.x_ns += this.xInParentNs[node];
    for (let node = first; node < end; node++) place.total_ns += this.totalNs[node];
    return place;
  }
}
