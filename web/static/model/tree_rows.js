// The rows of the call-tree table: which nodes are open, and the children that the server has sent. No DOM.

export const PAGE_ROWS = 100;
const keyOf = (path) => path.join('.');

/** The children of one node, as far as they are known: rows by their place among them. */
class Node {
  constructor(path) {
    this.path = path;
    this.count = null; // of all children; null until the server has said
    this.totalNs = 0;
    this.rows = new Map(); // place → row
  }
}

export class TreeRows {
  constructor() {
    this.totalNs = 0;
    this.comparison = null; // what changes go by
    this.clear();
  }

  /** Forgets what the server has sent, and closes all nodes but the root. */
  clear() {
    this.nodes = new Map(); // key → Node, of open nodes
    this.open([]);
  }

  /** Forgets what the server has sent; the same nodes stay open. */
  forget() {
    for (const node of this.nodes.values()) Object.assign(node, { count: null, rows: new Map() });
    this.visible = null;
  }

  isOpen(path) {
    return this.nodes.has(keyOf(path));
  }

  open(path) {
    const key = keyOf(path);
    if (!this.nodes.has(key)) this.nodes.set(key, new Node(path));
    this.visible = null;
  }

  /** Closes a node; what is open below it stays so for the next time. */
  close(path) {
    if (path.length) this.nodes.delete(keyOf(path));
    this.visible = null;
  }

  /** Opens all nodes along a path. */
  openAlong(path) {
    path.forEach((_, at) => this.open(path.slice(0, at)));
  }

  /**
   * Takes an answer of the server.
   *
   * @param opensFrom nodes with at least this share of the whole are opened: those along a heaviest path
   */
  take({ total_ns: totalNs, comparison = null, nodes }, { opensFrom = Infinity } = {}) {
    this.totalNs = totalNs;
    this.comparison = comparison;
    for (const { path, offset, count, total_ns: nodeNs, rows } of nodes) {
      if (count && nodeNs >= opensFrom * totalNs) this.open(path);
      const node = this.nodes.get(keyOf(path));
      if (!node) continue; // closed meanwhile
      if (node.count !== count) node.rows = new Map([...node.rows].filter(([at]) => at < count));
      Object.assign(node, { count, totalNs: nodeNs });
      rows.id.forEach((id, at) => node.rows.set(offset + at, rowOf(rows, at, [...path, id])));
    }
    this.visible = null;
  }

  /**
   * Returns the rows in their order: {path, key, level, place, count, isOpen, …}. A row that the server has not sent
   * has no `name`. The first level is 1.
   */
  list() {
    if (this.visible) return this.visible;
    const found = [];
    const add = (node, level) => {
      for (let place = 0; place < (node.count ?? 0); place++) {
        const row = node.rows.get(place);
        const parent = keyOf(node.path);
        if (!row) {
          found.push({ key: `${parent}/${place}`, level, place, count: node.count, parent: node.path });
          continue;
        }
        const below = this.nodes.get(row.key);
        found.push({ ...row, level, place, count: node.count, parent: node.path, isOpen: Boolean(below) });
        if (below) add(below, level + 1);
      }
    };
    add(this.nodes.get(''), 1);
    this.visible = found;
    return found;
  }

  indexOf(key) {
    return this.list().findIndex((row) => row.key === key);
  }

  /** Returns the row at the same place below the same node as a row before; null if there is none. */
  likeRow(before) {
    if (!before) return null;
    const parent = keyOf(before.parent);
    return this.list().find((row) => row.place === before.place && keyOf(row.parent) === parent) ?? null;
  }

  /**
   * Returns the pages to request so that rows `first` to `end` are there: [{path, offset, limit}].
   *
   * @param isStale true requests those rows again that are there
   */
  wanted(first, end, isStale = false) {
    const pages = new Map();
    const want = (path, place) => {
      const offset = place - (place % PAGE_ROWS);
      pages.set(`${keyOf(path)}/${offset}`, { path: keyOf(path), offset, limit: PAGE_ROWS });
    };
    for (const node of this.nodes.values()) if (node.count === null) want(node.path, 0);
    for (const row of this.list().slice(first, end)) {
      if (isStale || row.name === undefined) want(row.parent, row.place);
    }
    return [...pages.values()];
  }
}

function rowOf(rows, at, path) {
  return {
    path,
    key: keyOf(path),
    id: rows.id[at],
    name: rows.name[at],
    module: rows.module[at],
    file: rows.file[at],
    kind: rows.kind[at],
    origin: rows.origin?.[at] ?? '',
    full_name: rows.full_name[at],
    chain: rows.chain?.[at] ?? '',
    selfNs: rows.self_ns[at],
    totalNs: rows.total_ns[at],
    hereNs: rows.here_ns?.[at] ?? 0,
    thereNs: rows.there_ns?.[at] ?? 0,
    change: rows.change?.[at] ?? 0,
    hasChildren: rows.children[at] !== 0,
  };
}
