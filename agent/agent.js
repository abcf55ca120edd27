/*
 * The part of the agent that Frida runs: compiles the C sources inside the target, starts and stops them, and tells
 * them which threads are Frida's own. Does nothing per sample: samples go from C to the host through shared memory.
 */

'use strict';

/* How often threads born since are sorted into the target's and Frida's, and whether the host still lives is asked. */
const TEND_INTERVAL_MS = 100;
/* So often a thread is asked about after it was seen first: it may still turn out to be Frida's. */
const YOUNG_LOOKS = 10;

/* errno: the host was away for so long between prepare and start that the agent is gone. */
const ETIMEDOUT = 110;

/* How long a host may take from stop to unload, before it counts as silent, too. */
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
  agent_ring_fd: ['int', []],
  agent_close_ring_fd: ['void', []],
  agent_host_end_fd: ['int', []],
  agent_scratch: ['pointer', []],
  agent_note_stack: ['void', ['uint', 'uint64', 'uint64', 'int64']],
  agent_next_unknown: ['uint', []],
  agent_set_owner: ['void', ['uint', 'int']],
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

/* Kept for the life of the script: a collected CModule is unmapped under the sampler's feet. */
let module = null;
let cell = null;
let agent = null;
let tendTimer = null;
/* Threads that were not Frida's when they were seen first, by tid: how often to ask again. */
const young = new Map();
/* Inode numbers of the sockets that lead to the host. */
let hostSockets = [];
/* Which threads had seccomp filters when we came: enum filtered of agent.h. */
let filtered = 0;

/*
 * Frida has the loader tell it of each library that comes and goes: over the first byte of a function that does nothing
 * (r_brk, <link.h>) stands a jump into Frida's code. A child of fork takes that, too, and waits for ever when a thread
 * of Frida's held one of Frida's locks in that moment; and a thread that takes it while Frida leaves crashes. Nobody
 * here asks for libraries, so the function does nothing again; when Frida leaves it puts back what was there. The jump
 * may come a moment after this script, so it is looked for again.
 */
const loaderHook = findLoaderHook();

function findLoaderHook() {
  const loader = Module.findGlobalExportByName('_r_debug');
  return loader === null ? NULL : loader.add(2 * Process.pointerSize).readPointer();
}

function releaseLoader() {
  if (!loaderHook.isNull() && loaderHook.readU8() === JMP) Memory.patchCode(loaderHook, 1, code => code.writeU8(RET));
}

function libcSymbols() {
  const symbols = { agent_cell: cell };
  const libc = Process.findModuleByName('libc.so.6');
  for (const name of LIBC_FUNCTIONS) {
    const address = (libc !== null && libc.findExportByName(name)) || Module.findGlobalExportByName(name);
    if (address === null) throw new Error(`libc has no ${name}`);
    symbols[`libc_${name}`] = address;
  }
  return symbols;
}

/*
 * A thread of Frida's says that it is one in its first turn, which it may not have had yet: those that have not said so
 * are asked about again for a while.
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
 * All calls into C come from the thread that runs this script, one after another: what `stop` frees is used by none.
 * A host that is gone closes its end of the connection, and Frida unloads everything. One that is stopped does not: then
 * we close ours.
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
  /* Compile; prepare memory, maps and the list of threads. Returns the descriptors of the ring and of the host's end of the
   * pair of sockets (-1: none), and the address of memory that stackprobe.py may use. */
  prepare(source, rateHz, sockets, threadsFiltered, clocks) {
    hostSockets = sockets;
    filtered = threadsFiltered;
    cell = Memory.alloc(Process.pointerSize);
    module = new CModule(source, libcSymbols());
    agent = {};
    for (const [name, [result, parameters]] of Object.entries(FUNCTIONS))
      agent[name] = new NativeFunction(module[name], result, parameters, { exceptions: 'propagate' });
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

  /* The host has the ring: give the descriptor back, begin to sample. `stacks` is what it saw of threads that compute
   * (profiler/inject/stack_probe.py). Returns 0 or an errno. */
  start(stacks) {
    if (tendTimer === null) return ETIMEDOUT;
    for (const { tid, sps, alternate_start, alternate_bytes } of stacks)
      for (const sp of sps) agent.agent_note_stack(tid, sp, alternate_start, alternate_bytes);
    releaseLoader();
    agent.agent_close_ring_fd();
    return agent.agent_start();
  },

  setPaused(paused) {
    if (agent !== null) agent.agent_set_paused(paused ? 1 : 0);
  },

  /* Returns how many threads left a signal unanswered, -1 if nothing was running. The host unloads us next, at once. */
  stop() {
    const unanswered = stop();
    if (agent !== null) setTimeout(hangUp, UNLOAD_WAIT_MS);
    return unanswered;
  },

  /* Frida calls this when the script is unloaded, also when the host has gone. */
  dispose() {
    stop();
  },
};

releaseLoader();
