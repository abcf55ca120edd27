// A node program with known shares of CPU time: heavy() three parts, light() one. Input and output are those of shares.c.
// Start it with --perf-basic-prof, so that profilers can name its functions, and --no-turbo-inlining, so that they are not
// inlined.
"use strict";

const spent = { heavy: 0, light: 0 };

function heavy() {
  let value = 1;
  for (let i = 0; i < 6000000; i++) value = (Math.imul(value, 1664525) + 1013904223) | 0;
  return value;
}

function light() {
  let value = 1;
  for (let i = 0; i < 2000000; i++) value = (Math.imul(value, 1664525) + 1013904223) | 0;
  return value;
}

function cpuNs() {
  const usage = process.cpuUsage();
  return (usage.user + usage.system) * 1000;
}

let sink = 0;
function slice() {
  for (const work of [heavy, light]) {
    const before = cpuNs();
    sink ^= work();
    spent[work.name] += cpuNs() - before;
  }
  setImmediate(slice);
}

process.stdin.on("data", (data) => {
  for (const byte of data) {
    if (byte !== 10) continue;
    process.stdout.write(`heavy=${Math.round(spent.heavy)} light=${Math.round(spent.light)}\n`);
    spent.heavy = spent.light = 0;
  }
});
process.stdin.on("end", () => process.exit(0));
for (let i = 0; i < 20; i++) { heavy(); light(); }
setImmediate(slice);
console.log("ready");
