// A busy event loop: fib and a sort in slices of some 10 ms, and timers in between. Ends when its standard input does.
"use strict";

let slices = 0;

function fib(n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

function sortWords() {
  const words = [];
  for (let i = 0; i < 5000; i++) words.push(((i * 2654435761) % 4294967296).toString(36));
  return words.sort().length;
}

function slice() {
  fib(24);
  sortWords();
  slices++;
  setImmediate(slice);
}

process.stdin.resume();
process.stdin.on("end", () => {
  console.log(`done ${slices > 0 ? "busy" : "idle"}`);
  process.exit(0);
});
setTimeout(slice, 0);
console.log("ready ");
