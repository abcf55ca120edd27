// agent.js with stand-ins for what Frida and the C sources give it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import vm from 'node:vm';

const SOURCE = readFileSync(new URL('../../../../agent/agent.js', import.meta.url), 'utf8');

/** Runs agent.js up to the end of prepare; what it returns tends once. */
function prepared({ unknown, cloaked, owners }) {
  let tend = null;
  const pointer = { add: () => pointer, readPointer: () => pointer, isNull: () => true };
  const functions = {
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
    Memory: { alloc: () => pointer, patchCode() {} },
    CModule: function () {
      return new Proxy({}, { get: (_, name) => name });
    },
    NativeFunction: function (name) {
      return functions[name] ?? (() => 0);
    },
    Cloak: { hasThread: (tid) => cloaked.has(tid) },
    setInterval(callback) {
      tend = callback;
      return 1;
    },
    rpc: {},
  };
  vm.runInNewContext(SOURCE, context);
  assert.equal(context.rpc.exports.prepare({ source: '' }, 100, [], 0, 0).error, 0);
  return tend;
}

test("a thread of Frida's that has not had a turn yet is not taken for the target's for good", () => {
  const cloaked = new Set([11]);
  const owners = new Map();
  const tick = prepared({ unknown: [10, 11, 12], cloaked, owners });
  assert.deepEqual([...owners], [[10, 0], [11, 1], [12, 0]]);
  tick();
  cloaked.add(12);
  tick();
  assert.deepEqual([...owners], [[10, 0], [11, 1], [12, 1]]);
});

test('threads are asked about ten times, not for ever', () => {
  const cloaked = new Set();
  const owners = new Map();
  const tick = prepared({ unknown: [10], cloaked, owners });
  for (let looks = 0; looks < 10; looks++) tick();
  cloaked.add(10);
  tick();
  assert.deepEqual([...owners], [[10, 0]]);
});
