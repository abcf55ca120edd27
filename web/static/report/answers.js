// Answers the page's requests from the data of a report, in the shapes that web/encode.py has. No DOM.

import { parsePath, readFunction } from '../model/spelling.js';
import { functionChanges, grades, sizesOf, zScore } from './comparison.js';
import { compileSearch } from './search.js';

const MAX_TOP_MATCHES = 200;
const MAX_TABLE_ROWS = 500;
const KNOWN = ['clock', 'width', 'rows', 'revision', 'zoom', 'q', 'table', 'table_first', 'table_rows', 'have', 'run'];
const COMPARING = ['compare', 'scale', 'width_of'];

const WAITS = { '[waiting for a CPU]': 'queued', '[waiting for the GIL]': 'gil' };
// Files of CPython, HotSpot, node and Ruby, as in profiler/symbols/interpreters/function_origin.py.
const RUNTIME = /^((libpython|pypy|python)\d.*|libjvm\..*|(lib)?(node|ruby)([\d.-].*)?)$/;

/** Raised for what a report does not have. */
export class NotInReport extends Error {}

/** The trees of a report and their names. */
export class Answers {
  /**
   * @param trees clock → Tree
   * @param functions columns, by function
   * @param lineFiles the first is ""
   * @param lineTiers the same
   * @param compared {trees (as above, joined), sample_ns and spreads (by clock), lengths_ns}; null without another recording
   */
  constructor(trees, functions, lineFiles, lineTiers, compared = null) {
    Object.assign(this, { trees, functions, lineFiles, lineTiers, compared });
  }

  /** Returns the tree of a query, and what its sides are compared by; null for that of no comparison. */
  treeOf(query) {
    const clock = query.get('clock') ?? 'cpu';
    const compare = query.get('compare') ?? '';
    if (!compare) return [this.trees[clock], null];
    if (compare !== 'file' || !this.compared) throw new NotInReport('A saved report shows only what was saved.');
    const tree = this.compared.trees[clock];
    const isShare = query.get('scale') !== 'time';
    const { lengths_ns: lengthsNs, sample_ns: samples } = this.compared;
    const sizes = sizesOf(tree, { lengthsNs, sampleNs: samples[clock], isShare });
    if (query.get('width_of') !== 'both') return [tree, sizes];
    return [tree.widened(sizes.there_ns > 0 ? sizes.here_ns / sizes.there_ns : 1), sizes];
  }

  functionAt(id) {
    const { name, full_name, module, file, kind } = this.functions;
    return { name: name[id], full_name: full_name[id], module: module[id], file: file[id], kind: kind[id] };
  }

  /** Answers GET view. @param query URLSearchParams */
  view(query) {
    for (const key of query.keys()) {
      if (!KNOWN.includes(key) && !(this.compared && COMPARING.includes(key))) throw new NotInReport('A saved report shows only what was saved.');
    }
    const [tree, sizes] = this.treeOf(query);
    const asked = query.get('zoom') ? parsePath(query.get('zoom')) : [];
    const zoom = tree.resolve(asked.map((each) => this.idsOf(each))).at(-1);
    const [search, isMatch] = this.search(tree, zoom, query.get('q') ?? '');
    const lastRow = Number(query.get('rows') ?? 400);
    const run = query.get('run') ? tree.resolveRun(zoom, numbers(query.get('run'), '-')) : null;
    const { boxes, zoomBox, deepestRow } = tree.boxes(zoom, Number(query.get('width') ?? 1000), lastRow, run);
    const table = query.get('table');
    return {
      revision: 1,
      total_ns: tree.totalNs[0],
      zoom: { path: tree.pathOf(zoom), box: zoomBox, asked: asked.length, ...(run ? { run: tree.placeOfRun(run) } : {}) },
      deepest_row: deepestRow,
      last_row: lastRow,
      ...this.encode(tree, boxes, isMatch, sizes),
      comparison: sizes,
      search,
      origins: this.origins(tree, zoom),
      nameless_ns: this.namelessNs(tree, zoom),
      nameless_frames: this.namelessFrames(tree, zoom),
      table: table ? this.table(tree, zoom, table, isMatch, query, sizes) : null,
    };
  }

  /** Returns the own time below a node by whose code it is; null where functions have no origin. */
  origins(tree, below) {
    const { origin, kind, module } = this.functions;
    if (!origin) return null;
    const own = {};
    for (const { id, selfNs } of tree.functionsBelow(below, 'self', null)) {
      if (!selfNs) continue;
      if (kind[id] === 'synthetic') {
        if (this.functions.name[id] in WAITS) own[WAITS[this.functions.name[id]]] = selfNs;
        continue;
      }
      const whose = kind[id] === 'syscall' ? 'kernel' : origin[id] === 'interpreter' ? 'native' : origin[id];
      own[whose] = (own[whose] ?? 0) + selfNs;
      if (whose === 'native' && RUNTIME.test(module[id])) own.runtime = (own.runtime ?? 0) + selfNs;
    }
    return { total_ns: tree.totalNs[below], own_ns: own };
  }

  /** Returns the own time below a node of functions without a name; system calls count as the function that makes them. */
  namelessNs(tree, below) {
    const { kind } = this.functions;
    let sum = 0;
    for (let rank = tree.rank[below]; rank < tree.end[below]; rank++) {
      const node = tree.depthFirst[rank];
      const own = kind[tree.function[node]] === 'syscall' ? tree.parent[node] : node;
      if (kind[tree.function[own]] === 'unknown') sum += tree.selfNs[node];
    }
    return sum;
  }

  /** Returns the share of frames without a name below a node, each as often as it was sampled. */
  namelessFrames(tree, below) {
    const { kind } = this.functions;
    let all = 0;
    let sum = 0;
    for (let rank = Math.max(tree.rank[below], 1); rank < tree.end[below]; rank++) {
      const node = tree.depthFirst[rank];
      all += tree.totalNs[node];
      if (kind[tree.function[node]] === 'unknown') sum += tree.totalNs[node];
    }
    return all ? sum / all : 0;
  }

  /** Returns the functions that an element of a path means: an id, or a name with its module. */
  idsOf(element) {
    if (typeof element === 'number') return [element];
    const { name, module } = readFunction(element);
    const names = this.functions;
    return names.name.flatMap((each, id) => (each === name && names.module[id] === module ? [id] : []));
  }

  /** Answers POST tree. @param query as for view; @param body {nodes, heaviest} */
  tree(query, { nodes, heaviest }) {
    const [tree, sizes] = this.treeOf(query);
    const found = [];
    const find = ({ path }) => {
      const asked = path ? parsePath(path) : [];
      const at = tree.resolve(asked.map((each) => this.idsOf(each)));
      return at.length === asked.length + 1 ? at.at(-1) : -1;
    };
    for (const page of nodes) {
      const node = find(page);
      if (node >= 0) found.push(this.page(tree, node, page, sizes));
    }
    for (let node = heaviest ? find(heaviest) : -1; node >= 0; node = tree.childrenByWeight(node)[0] ?? -1) {
      found.push(this.page(tree, node, { offset: 0, limit: Infinity }, sizes));
    }
    return { revision: 1, total_ns: tree.totalNs[0], comparison: sizes, nodes: found };
  }

  page(tree, node, { offset, limit }, sizes) {
    const all = tree.childrenByWeight(node);
    const shown = all.slice(offset, offset + limit);
    const ids = shown.map((child) => tree.function[child]);
    const rows = {
      ...this.columns(ids),
      full_name: ids.map((id) => this.functions.full_name[id]),
      self_ns: shown.map((child) => tree.selfNs[child]),
      total_ns: shown.map((child) => tree.totalNs[child]),
      children: shown.map((child) => tree.childCount[child]),
    };
    if (sizes) Object.assign(rows, sidesAt(tree, shown, sizes));
    if (tree.hasChains) rows.chain = shown.map((child) => this.functions.name[tree.chainEnd[child]] ?? '');
    return { path: tree.pathOf(node), offset, count: all.length, total_ns: tree.totalNs[node], rows };
  }

  encode(tree, boxes, isMatch, sizes) {
    const local = new Map(); // function → its index in the answer
    const of = ({ node }, column, none) => (node < 0 ? none : column[node]);
    const index = (id) => {
      if (id < 0) return -1;
      if (!local.has(id)) local.set(id, local.size);
      return local.get(id);
    };
    const columns = {
      row: boxes.map(({ row }) => row),
      x_ns: boxes.map(({ xNs }) => xNs),
      total_ns: boxes.map(({ totalNs }) => totalNs),
      self_ns: boxes.map((box) => of(box, tree.selfNs, 0)),
      line: boxes.map((box) => of(box, tree.line, 0)),
      line_file: boxes.map((box) => of(box, tree.lineFile, 0)),
      parent: boxes.map(({ parent }) => parent),
      hidden: boxes.map(({ hidden }) => hidden),
      function: boxes.map((box) => index(of(box, tree.function, -1))),
    };
    if (sizes) Object.assign(columns, sidesAt(tree, boxes.map(({ node }) => node), sizes));
    if (tree.hasChains) columns.chain = boxes.map((box) => index(of(box, tree.chainEnd, -1)));
    const runs = boxes.flatMap(({ node }, at) => (node < 0 ? [at] : []));
    const ids = [...local.keys()];
    const functions = this.columns(ids);
    functions.full_name = ids.map((id) => this.functions.full_name[id]);
    if (isMatch) functions.matches = ids.map((id) => Number(isMatch[id]));
    const ends = {
      box: runs,
      first: runs.map((at) => tree.function[boxes[at].first]),
      last: runs.map((at) => tree.function[boxes[at].first + boxes[at].hidden - 1]),
    };
    return { boxes: columns, runs: ends, functions, line_files: this.lineFiles, line_tiers: this.lineTiers };
  }

  columns(ids) {
    const columns = { id: ids };
    for (const name of ['name', 'module', 'file', 'kind', 'origin']) {
      const all = this.functions[name];
      if (all) columns[name] = ids.map((id) => all[id]);
    }
    return columns;
  }

  search(tree, zoom, pattern) {
    if (!pattern) return [null, null];
    const answer = { pattern, error: null, total_ns: 0, count: 0, top: [] };
    let matches;
    try {
      matches = compileSearch(pattern);
    } catch (error) {
      return [{ ...answer, error: error.message }, null];
    }
    const isMatch = this.matching(matches);
    const found = tree.matches(isMatch, zoom);
    const top = found.slice(0, MAX_TOP_MATCHES).map((node) => ({
      path: tree.pathOf(node),
      total_ns: tree.totalNs[node],
    }));
    const total = found.reduce((sum, node) => sum + tree.totalNs[node], 0);
    return [{ ...answer, total_ns: total, count: found.length, top }, isMatch];
  }

  /** Returns of each function whether it matches, by its own file or by one that it takes lines from. */
  matching(matches) {
    const isMatch = this.functions.name.map((_, id) => matches(this.functionAt(id)));
    for (const [id, file] of this.takenIn()) {
      isMatch[id] ||= matches({ ...this.functionAt(id), file: this.lineFiles[file] });
    }
    return isMatch;
  }

  /** Returns the pairs of a function and a file, not its own, that has lines of it. */
  takenIn() {
    if (this.pairs) return this.pairs;
    const pairs = new Map();
    for (const tree of Object.values(this.trees)) {
      for (let node = 0; node < tree.count; node++) {
        const [id, file] = [tree.function[node], tree.lineFile[node]];
        if (file > 0) pairs.set(`${id} ${file}`, [id, file]);
      }
    }
    this.pairs = [...pairs.values()];
    return this.pairs;
  }

  table(tree, zoom, order, isMatch, query, sizes) {
    if (sizes) {
      const spreads = this.compared.spreads[query.get('clock') ?? 'cpu'];
      return this.changes(functionChanges(tree, zoom, order, sizes, isMatch, spreads));
    }
    const all = tree.functionsBelow(zoom, order, isMatch);
    const first = Number(query.get('table_first') ?? 0);
    const shown = all.slice(first, first + Math.min(MAX_TABLE_ROWS, Number(query.get('table_rows') ?? 60)));
    const rows = this.columns(shown.map(({ id }) => id));
    rows.self_ns = shown.map(({ selfNs }) => selfNs);
    rows.total_ns = shown.map(({ totalNs }) => totalNs);
    return { rows, function_count: all.length, first };
  }

  /** Returns the table of a comparison. */
  changes(all) {
    const shown = all.slice(0, MAX_TABLE_ROWS);
    const rows = this.columns(shown.map(({ id }) => id));
    const column = (name) => shown.map((row) => row[name]);
    Object.assign(rows, { self_here: column('selfHere'), self_there: column('selfThere'), self_change: column('selfGrade') });
    Object.assign(rows, { total_here: column('totalHere'), total_there: column('totalThere'), total_change: column('totalGrade') });
    return { rows, function_count: all.length };
  }
}

/** Returns the weights of nodes on both sides, and how sure their change is; of runs (-1) there is none. */
function sidesAt(tree, nodes, sizes) {
  const of = (side) => nodes.map((node) => (node < 0 ? -1 : side[node]));
  const [here, there] = [of(tree.sides.here), of(tree.sides.there)];
  const scores = here.map((ns, at) => (ns < 0 ? 0 : zScore(ns, there[at], sizes)));
  return { here_ns: here, there_ns: there, change: grades(scores) };
}
