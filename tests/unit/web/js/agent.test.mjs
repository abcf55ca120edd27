// agent.js with stand-ins for what Frida and the C sources give it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import vm from 'node:vm';

const SOURCE = readFileSync(new URL('../../../../agent/agent.js', import.meta.url), 'utf8');

/** Runs agent.js up to the end of enter; what it returns tends once. */
function entered({ unknown, cloaked, owners }) {
  let tend = null;
  const pointer = {
    add: () => pointer,
    readPointer: () => pointer,
    writePointer() {},
    writeByteArray() {},
    isNull: () => true,
  };
  /** The address of a symbol. */
  const named = (name) => ({ ...pointer, name });
  const symbols = new Proxy({}, { get: (_, name) => name });
  const functions = {
    agent_enter: () => 7,
    agent_next_unknown: () => unknown[0] ?? 0,
    agent_set_owner(tid, injected) {
      owners.set(tid, injected);
      if (unknown[0] === tid) unknown.shift();
    },
  };
  const context = {
    NULL: pointer,
    Process: { pointerSize: 8, findModuleByName: () => null },
    Module: { findGlobalExportByName: () => pointer },
    Memory: { alloc: () => ({ ...pointer, add: (name) => named(name) }), protect: () => true, patchCode() {} },
    NativeFunction: function (place) {
      return functions[place.name] ?? (() => 0);
    },
    Cloak: { hasThread: (tid) => cloaked.has(tid) },
    setInterval(callback) {
      tend = callback;
      return 1;
    },
    rpc: {},
  };
  vm.runInNewContext(SOURCE, context);
  assert.equal(context.rpc.exports.enter(symbols, [], 0, new ArrayBuffer(8)).tid, 7);
  return tend;
}

test("a thread of Frida's that has not had a turn yet is not taken for the target's for good", () => {
  const cloaked = new Set([11]);
  const owners = new Map();
  const tick = entered({ unknown: [10, 11, 12], cloaked, owners });
  tick();
  assert.deepEqual([...owners], [[10, 0], [11, 1], [12, 0]]);
  tick();
  cloaked.add(12);
  tick();
  assert.deepEqual([...owners], [[10, 0], [11, 1], [12, 1]]);
});

test('threads are asked about ten times, not for ever', () => {
  const cloaked = new Set();
  const owners = new Map();
  const tick = entered({ unknown: [10], cloaked, owners });
  tick();
  for (let looks = 0; looks < 10; looks++) tick();
  cloaked.add(10);
  tick();
  assert.deepEqual([...owners], [[10, 0]]);
});
