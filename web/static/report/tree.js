// A call tree from a report: unpacked, with what views are computed from. No DOM.
//
// profiler/analysis/packed_tree.py has the format, tree_view.py the same computations for the server.

export const MIN_BOX_PX = 0.5; // narrower boxes are invisible; a run of them is one box

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
  /** @param bytes as packed */
  constructor(bytes) {
    const numbers = new Numbers(bytes);
    this.count = numbers.next();
    const read = (make) => numbers.column(make, this.count);
    Object.assign(this, { childCount: read(ints), function: read(ints), selfNs: read(floats) });
    Object.assign(this, { line: read(ints), lineFile: read(ints) });
    for (let node = 0; node < this.count; node++) this.function[node]--; // -1 for the root
    this.findChildren();
    this.sumUp();
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
    this.totalNs = this.selfNs.slice();
    for (let node = count - 1; node > 0; node--) this.totalNs[parent[node]] += this.totalNs[node];
    this.xInParentNs = floats(count); // the left edge, from its parent's
    for (let node = 2; node < count; node++) {
      const isSibling = parent[node] === parent[node - 1];
      this.xInParentNs[node] = isSibling ? this.xInParentNs[node - 1] + this.totalNs[node - 1] : 0;
    }
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
   * a box: {node (-1: a run of narrow ones), parent, xNs, totalNs, hidden}.
   */
  boxes(zoom, widthPx, lastRow) {
    const leastNs = Math.max(1, (MIN_BOX_PX * this.totalNs[zoom]) / Math.max(widthPx, 1));
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
      const below = row.flatMap((box) => (box.node < 0 ? [] : this.boxesBelow(box, leastNs)));
      if (!below.length) break;
      depth++;
      for (const box of below) Object.assign(box, { at: count++, row: depth });
      if (depth <= lastRow) boxes.push(...below);
      row = below;
    }
    return { boxes, zoomBox, deepestRow: depth };
  }

  /** Returns the boxes of a node's children. Neighbours that are each too narrow are one box together. */
  boxesBelow({ node: above, xNs, at: parent }, leastNs) {
    const found = [];
    const first = this.firstChild[above];
    let run = null;
    const endRun = () => {
      if (run && run.totalNs >= leastNs) found.push(run);
      run = null;
    };
    for (let node = first; node < first + this.childCount[above]; node++) {
      const totalNs = this.totalNs[node];
      const left = xNs + this.xInParentNs[node];
      if (totalNs >= leastNs) {
        endRun();
        found.push({ node, parent, xNs: left, totalNs, hidden: 0 });
      } else if (run) {
        run.totalNs += totalNs;
        run.hidden++;
      } else {
        run = { node: -1, parent, xNs: left, totalNs, hidden: 1 };
      }
    }
    endRun();
    return found;
  }
}
