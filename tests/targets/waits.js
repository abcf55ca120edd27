// Threads that wait in many ways for some milliseconds each. Ends when its standard input does.
"use strict";

const { Worker, isMainThread } = require("node:worker_threads");
const { execFileSync } = require("node:child_process");
const { pbkdf2, createHash } = require("node:crypto");
const { deflate } = require("node:zlib");
const { lookup } = require("node:dns");

const cell = new Int32Array(new SharedArrayBuffer(4));
const some = (low, high) => low + Math.floor(Math.random() * (high - low));

const calls = [
  (next) => next(),
  (next) => [1].map(next),
  (next) => [2, 1].sort(() => (next(), 0)),
  (next) => "a".replace(/a/, () => String(next())),
  (next) => JSON.stringify({ toJSON: next }),
  (next) => Reflect.apply(next, null, []),
  (next) => new Proxy({}, { get: next }).missing,
  (next) => new (class { constructor() { next(); } })(),
];

function down(depth, wait) {
  if (depth === 0) return void wait();
  calls[some(0, calls.length)](() => down(depth - 1, wait));
}

function worker() {
  down(some(0, 8), () => Atomics.wait(cell, 0, 0, some(5, 50)));
  setTimeout(worker, some(0, 40));
}

function main() {
  const wait = () => execFileSync("sleep", ["0.01"]);
  if (Math.random() < 0.3) down(some(0, 6), wait);
  pbkdf2("a", "b", 3000, 32, "sha256", () => {});
  deflate(Buffer.alloc(1 << 18, createHash("md5").update(String(Math.random())).digest()), () => {});
  lookup("localhost", () => {});
  setTimeout(main, some(1, 60));
}

if (isMainThread) {
  for (let i = 0; i < 4; i++) new Worker(__filename);
  process.stdin.resume();
  process.stdin.on("end", () => {
    console.log("done");
    process.exit(0);
  });
  main();
  console.log("ready ");
} else {
  worker();
}
