// cycle → heavy (3 parts of the work) or light (1 part), as ratio.c does; compiled by V8 after the first cycles. Ends when its
// standard input does.
"use strict";

let sink = 0;

function heavy(n) {
  let state = sink | 1;
  for (let i = 0; i < 3 * n; i++) state = (Math.imul(state, 1664525) + 1013904223) | 0;
  return state;
}

function light(n) {
  let state = sink | 1;
  for (let i = 0; i < n; i++) state = (Math.imul(state, 22695477) + 12345) | 0;
  return state;
}

function cycle() {
  sink ^= heavy(100000);
  sink ^= light(100000);
  setImmediate(cycle);
}

process.stdin.resume();
process.stdin.on("end", () => {
  console.log("done");
  process.exit(0);
});
setImmediate(cycle);
console.log("ready ");
