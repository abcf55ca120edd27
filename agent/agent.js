/*
 * The part of the agent that Frida runs: it loads the machine code of the C sources into the target, or compiles them
 * there, starts and stops them, and tells them which threads are Frida's own. It does nothing per sample: samples go from
 * C to the host through shared memory.
 */

'use strict';

/* How often new threads are sorted into the target's and Frida's, and the host's life sign is checked. */
const TEND_INTERVAL_MS = 100;
/* How often a new thread is checked again: it may still turn out to be Frida's. */
const YOUNG_LOOKS = 10;

/* errno: the host fell silent between prepare and start for so long that the agent has ended. */
const ETIMEDOUT = 110;

/* How long the host may take from stop to unload before it counts as silent. */
const UNLOAD_WAIT_MS = 3000;

/* First bytes of x86-64 instructions. */
const JMP = 0xe9;
const RET = 0xc3;

/* C functions that agent.js may call: name -> [return type, argument types]. */
const FUNCTIONS = {
  agent_prepare: ['int', ['uint', 'uint', 'uint']],
  agent_start: ['int', []],
  agent_stop: ['int', []],
  agent_set_paused: ['void', ['int']],
  agent_set_rate: ['void', ['uint']],
  agent_ring_fd: ['int', []],
  agent_close_ring_fd: ['void', []],
  agent_host_end_fd: ['int', []],
  agent_scratch: ['pointer', []],
  agent_note_stack: ['void', ['uint', 'uint64', 'uint64', 'int64']],
  agent_next_unknown: ['uint', []],
  agent_set_owner: ['void', ['uint', 'int']],
  agent_set_recipes: ['int', ['pointer', 'uint']],
  agent_is_orphaned: ['int', []],
  agent_hang_up: ['void', ['uint64', 'uint']],
};

/* libc functions that the C sources use, each under the name libc_NAME. */
const LIBC_FUNCTIONS = [
  'sigaction',
  'pthread_create',
  'pthread_join',
  'pthread_attr_init',
  'pthread_attr_setstacksize',
  'pthread_attr_destroy',
];

/* What holds the code: a CModule or memory. Referenced for the life of the script: it is unmapped when it is collected as
 * garbage, while the sampler runs in it. */
let codeHolder = null;
let cell = null;
let agent = null;
let tendTimer = null;
/* Threads that were not Frida's when they were first seen, by tid: how often to check again. */
const young = new Map();
/* Inode numbers of the sockets to the host. */
let hostSockets = [];
/* Which threads had seccomp filters at the attach: enum filtered of agent.h. */
let filtered = 0;

/*
 * Frida hooks the loader to learn of each library that is loaded or unloaded: it writes a jump into its own code over the
 * start of an empty function (r_brk, <link.h>). A child of fork runs that jump, too, and hangs for ever if a thread of
 * Frida's held one of Frida's locks at the fork; a thread that runs it while Frida unloads crashes. The agent does not
 * need these events, so we make the function return at once; Frida restores the original byte when it unloads. Frida may
 * write the jump a moment after this script starts, so we check for it again.
 */
const loaderHook = findLoaderHook();

function findLoaderHook() {
  const loader = Module.findGlobalExportByName('_r_debug');
  return loader === null ? NULL : loader.add(2 * Process.pointerSize).readPointer();
}

function releaseLoader() {
  if (!loaderHook.isNull() && loaderHook.readU8() === JMP) Memory.patchCode(loaderHook, 1, code => code.writeU8(RET));
}

/* What the C sources use from outside: name -> address. */
function imports() {
  const symbols = { agent_cell: cell };
  const libc = Process.findModuleByName('libc.so.6');
  for (const name of LIBC_FUNCTIONS) {
    const address = (libc !== null && libc.findExportByName(name)) || Module.findGlobalExportByName(name);
    if (address === null) throw new Error(`libc has no ${name}`);
    symbols[`libc_${name}`] = address;
  }
  return symbols;
}

/* Have TinyCC compile the sources. Returns where each function is. */
function compile(source) {
  codeHolder = new CModule(source, imports());
  return name => codeHolder[name];
}

/* Load machine code, whole pages, as it is; `symbols` are offsets in it. Returns where each function is. */
function load(code, symbols) {
  codeHolder = Memory.alloc(code.byteLength);
  codeHolder.writeByteArray(code);
  for (const [name, address] of Object.entries(imports()))
    codeHolder.add(symbols[`import_${name}`]).writePointer(address);
  if (!Memory.protect(codeHolder, code.byteLength, 'r-x')) throw new Error('the agent cannot be made executable');
  return name => codeHolder.add(symbols[name]);
}

/*
 * A thread of Frida's registers with Cloak when it first runs, which may not have happened yet: threads that are not
 * registered are checked again for a while.
 */
function sortThreads() {
  for (const [tid, looks] of young) {
    const isFridas = Cloak.hasThread(tid);
    if (isFridas) agent.agent_set_owner(tid, 1);
    if (isFridas || looks === 1) young.delete(tid);
    else young.set(tid, looks - 1);
  }
  for (;;) {
    const tid = agent.agent_next_unknown();
    if (tid === 0) return;
    const isFridas = Cloak.hasThread(tid);
    agent.agent_set_owner(tid, isFridas ? 1 : 0);
    if (!isFridas) young.set(tid, YOUNG_LOOKS);
  }
}

function stop() {
  if (agent === null) return -1;
  if (tendTimer !== null) {
    clearInterval(tendTimer);
    tendTimer = null;
  }
  return agent.agent_stop();
}

/*
 * All calls into C are made by the thread that runs this script, one after another, so no call uses memory that `stop`
 * has freed. When the host ends, its end of the connection closes, and Frida unloads everything. When the host is stopped,
 * its end stays open: then we close ours.
 */
function tend() {
  releaseLoader();
  if (!agent.agent_is_orphaned()) {
    sortThreads();
    return;
  }
  stop();
  hangUp();
}

function hangUp() {
  for (const inode of hostSockets) agent.agent_hang_up(inode, filtered);
}

rpc.exports = {
  /* Bring in the C functions: `program` holds their source, or symbols of `code`, which is machine code (last, because Frida
   * passes bytes so). Prepare memory, maps and the list of threads. Returns the descriptors of the ring and of the host's end
   * of the pair of sockets (-1: none), and the address of memory that stack_probe.py may use. */
  prepare(program, rateHz, sockets, threadsFiltered, clocks, code) {
    hostSockets = sockets;
    filtered = threadsFiltered;
    cell = Memory.alloc(Process.pointerSize);
    const find = program.source === undefined ? load(code, program.symbols) : compile(program.source);
    const functions = {};
    for (const [name, [result, parameters]] of Object.entries(FUNCTIONS))
      functions[name] = new NativeFunction(find(name), result, parameters, { exceptions: 'propagate' });
    agent = functions;
    const error = agent.agent_prepare(rateHz, filtered, clocks);
    if (error !== 0) {
      agent = null;
      return { error: -error };
    }
    sortThreads();
    tendTimer = setInterval(tend, TEND_INTERVAL_MS);
    releaseLoader();
    return {
      error: 0,
      fd: agent.agent_ring_fd(),
      hostEnd: agent.agent_host_end_fd(),
      scratch: agent.agent_scratch().toString(),
    };
  },

  /* Close the ring's descriptor, which the host has mapped, and begin to sample. `stacks` are the stack pointers that the
   * host saw of computing threads (profiler/inject/stack_probe.py). Returns 0 or an errno. */
  start(stacks) {
    if (tendTimer === null) return ETIMEDOUT;
    for (const { tid, sps, alternate_start, alternate_bytes } of stacks)
      for (const sp of sps) agent.agent_note_stack(tid, sp, alternate_start, alternate_bytes);
    releaseLoader();
    agent.agent_close_ring_fd();
    return agent.agent_start();
  },

  /* Have frames of these interpreters read: for each an array of numbers as text, in the order of enum recipe. */
  setRecipes(recipes) {
    if (agent === null) return;
    const words = recipes.flat();
    const memory = Memory.alloc(Math.max(words.length, 1) * 8);
    words.forEach((word, index) => memory.add(index * 8).writeU64(uint64(word)));
    agent.agent_set_recipes(memory, recipes.length);
  },

  setPaused(paused) {
    if (agent !== null) agent.agent_set_paused(paused ? 1 : 0);
  },

  setRate(rateHz) {
    if (agent !== null) agent.agent_set_rate(rateHz);
  },

  /* Returns how many threads left a signal unanswered, -1 if nothing was running. The host must unload us right after. */
  stop() {
    const unanswered = stop();
    if (agent !== null) setTimeout(hangUp, UNLOAD_WAIT_MS);
    return unanswered;
  },

  /* Frida calls this when the script is unloaded, also after the host has ended. */
  dispose() {
    stop();
  },
};

releaseLoader();
