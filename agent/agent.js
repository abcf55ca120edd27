/*
 * The part of the agent that Frida runs, where Frida is the way in: it loads the machine code into the target, has it make
 * our thread, tells that which threads are Frida's own, and hangs up. All else the host says to our thread
 * (entry/control.h).
 */

'use strict';

/* How often new threads are sorted into the target's and Frida's, and it is checked whether our thread still lives. */
const TEND_INTERVAL_MS = 100;
/* How often a new thread is checked again: it may still turn out to be Frida's. */
const YOUNG_LOOKS = 10;

/* How long the host may take from the end of our thread to unload before it counts as silent. */
const UNLOAD_WAIT_MS = 3000;

/* First bytes of x86-64 instructions. */
const JMP = 0xe9;
const RET = 0xc3;

/* C functions that agent.js may call: name -> [return type, argument types]. */
const FUNCTIONS = {
  agent_enter: ['int', []],
  agent_leave: ['void', []],
  agent_has_left: ['int', []],
  agent_next_unknown: ['uint', []],
  agent_set_owner: ['void', ['uint', 'int']],
  agent_hang_up: ['void', ['uint64', 'uint']],
};

/* struct boot (entry/control.h): its size, and where libc_code is. */
const BOOT_BYTES = 96;
const BOOT_LIBC_CODE = 64;

/* What holds the code, and `boot`. Referenced for the life of the script: memory is unmapped when it is collected as
 * garbage, while our thread runs in it. */
let codeHolder = null;
let boot = null;
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

/* Load machine code, whole pages, as it is; `symbols` are offsets in it. */
function load(code, symbols) {
  boot = Memory.alloc(BOOT_BYTES);
  boot.add(BOOT_LIBC_CODE).writePointer(Module.findGlobalExportByName('sigaction') ?? NULL);
  codeHolder = Memory.alloc(code.byteLength);
  codeHolder.writeByteArray(code);
  codeHolder.add(symbols.import_boot).writePointer(boot);
  if (!Memory.protect(codeHolder, code.byteLength, 'r-x')) throw new Error('the agent cannot be made executable');
  agent = {};
  for (const [name, [result, parameters]] of Object.entries(FUNCTIONS))
    agent[name] = new NativeFunction(codeHolder.add(symbols[name]), result, parameters, { exceptions: 'propagate' });
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

/* Have our thread give everything back and end; returns when it has. */
function leave() {
  if (tendTimer !== null) {
    clearInterval(tendTimer);
    tendTimer = null;
  }
  if (agent !== null) agent.agent_leave();
}

/*
 * When the host ends, its end of the connection closes, and Frida unloads everything. When the host is stopped, its end
 * stays open, and our thread ends by itself: then we close ours.
 */
function tend() {
  releaseLoader();
  if (!agent.agent_has_left()) {
    sortThreads();
    return;
  }
  leave();
  setTimeout(hangUp, UNLOAD_WAIT_MS);
}

function hangUp() {
  for (const inode of hostSockets) agent.agent_hang_up(inode, filtered);
}

rpc.exports = {
  /* Load the machine code (last, because Frida passes bytes so), and have it make our thread. Returns its number, or an
   * errno below 0, and where `boot` is. */
  enter(symbols, sockets, threadsFiltered, code) {
    hostSockets = sockets;
    filtered = threadsFiltered;
    load(code, symbols);
    const tid = agent.agent_enter();
    if (tid > 0) tendTimer = setInterval(tend, TEND_INTERVAL_MS);
    releaseLoader();
    return { tid, boot: boot.toString() };
  },

  /* Frida calls this when the script is unloaded, also after the host has ended. */
  dispose() {
    leave();
  },
};

releaseLoader();
