// Takes the place of server/connection.js in a saved report: the data is in the page, and it is final.

import { Answers, NotInReport } from './answers.js';
import { linesOf } from './code.js';
import { Times } from './time.js';
import { Tree } from './tree.js';

const FORMAT = 2; // as in profiler/export/html.py

/** True in a saved report: what needs flametap itself is not there. */
export const isReport = true;

export class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const data = JSON.parse(document.getElementById('report-data').textContent);

/** The range that the report is of, as the state has it; "" for the whole recording. */
export const savedRange = data.range ?? '';

/** Whether the report has what a part of the state asks for, beside its clock: both sides of a comparison. */
export function isSaved(name, value) {
  if (!data.compared) return false;
  return name === 'compare' ? ['', 'file'].includes(value) : ['scale', 'widthOf'].includes(name);
}

/** Whether the report has a timeline. */
export const hasTimeline = Boolean(data.times);

// The report opens with the clock that was shown when it was saved, and with the comparison that it has.
if (!location.hash) {
  const parts = [...(data.clock === 'cpu' ? [] : [`clock=${data.clock}`]), ...(data.compared ? ['compare=file', 'sort=total'] : [])];
  if (parts.length) history.replaceState(null, '', `#${parts.join('&')}`);
}

async function inflate(text) {
  if (!globalThis.DecompressionStream) {
    throw new Error('This browser is too old for the report. Use Firefox 113, Chrome 103, Safari 16.4 or newer.');
  }
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const parts = new Map(); // part of the data → its promise

/** Returns a part of the data; throws NotInReport if it is not in the file. */
async function part(name) {
  if (!data[name]) throw new NotInReport('This is in the live page only');
  if (!parts.has(name)) parts.set(name, inflate(data[name]).then((bytes) => JSON.parse(new TextDecoder().decode(bytes))));
  return await parts.get(name);
}

let unpacked = null;

/** Returns the names, and a tree for each clock that was asked for; with `isJoined`, that of a comparison. */
async function answers(clock, isJoined) {
  unpacked ??= unpack();
  const found = await unpacked;
  if (isJoined) found.compared.trees[clock] ??= new Tree(await inflate(data.compared.trees[clock]), { isJoined });
  else found.trees[clock] ??= new Tree(await inflate(data.trees[clock]));
  return found;
}

async function unpack() {
  if (data.format !== FORMAT) throw new Error('The report is of another version of flametap.');
  const names = await part('names');
  const compared = data.compared ? { ...data.compared, trees: {}, spreads: await part('spreads') } : null;
  return new Answers({}, names.functions, names.line_files, names.line_tiers, compared);
}

const ANSWERS = {
  exports: () => ({ exports: [] }),
  status: () => ({ status: data.status, thread_count: 0 }),
  lanes: async (query) => new Times(await part('times')).lanes(query),
  heat: async (query) => new Times(await part('times')).heat(query),
  lines: async (query) => {
    const found = linesOf(await part('code'), query);
    if (!found) throw new NotInReport('The report has the code of the heaviest functions whose source file is known');
    return found;
  },
  view: async (query) => (await answersFor(query)).view(query),
  tree: async (query, body) => (await answersFor(query)).tree(query, body),
};

async function answersFor(query) {
  const clock = query.get('clock') ?? 'cpu';
  if (!Object.hasOwn(data.trees, clock)) throw new NotInReport(`There is no clock ${clock}.`);
  return await answers(clock, Boolean(query.get('compare') && data.compared));
}

/** Answers as the server does. Throws HttpError for what a report does not have. */
export async function fetchJson(path, { body = '{}' } = {}) {
  const [name, query = ''] = path.split('?');
  if (!Object.hasOwn(ANSWERS, name)) throw new HttpError(404, 'This is in the live page only');
  try {
    return await ANSWERS[name](new URLSearchParams(query), JSON.parse(body));
  } catch (error) {
    throw new HttpError(error instanceof NotInReport ? 404 : 500, error.message);
  }
}

export async function fetchFile() {
  throw new HttpError(404, 'A saved report has no other formats');
}

export async function postJson() {
  throw new HttpError(404, 'A saved report does not record');
}

export async function setPaused() {
  throw new HttpError(404, 'A saved report does not record');
}

/** As that of the server, which says at once that the recording will not change any more. */
export class Connection {
  constructor({ onStatus, onState }) {
    Object.assign(this, { onStatus, onState });
  }

  open() {
    this.onStatus(data.status);
    this.onState('complete');
  }
}
