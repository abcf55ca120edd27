// Node: a JIT that optimises and gives up, WebAssembly, a worker thread with a heap of its own, async functions,
// generators. See zoo.h for what a round is.
'use strict';
const { existsSync } = require('fs');
const { Worker, isMainThread, parentPort } = require('worker_threads');

// (func $fib (export "fib") (param i32) (result i32) …), by plain recursion
const wasm = 'AGFzbQEAAAABBgFgAX8BfwMCAQAHBwEDZmliAAAKHgEcACAAQQJIBH8gAAUgAEEBaxAAIABBAmsQAGoLCw==';
const { fib } = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(wasm, 'base64'))).exports;

const tree = (depth) => (depth < 0 ? null : { left: tree(depth - 1), right: tree(depth - 1) });
const nodes = (tree) => (tree ? 1 + nodes(tree.left) + nodes(tree.right) : 0);

function* steps(i) {
  for (let k = 0; k < 20; k++) yield i * k;
}

async function work(i) {
  let sum = 0;
  for (const value of steps(i)) {
    try {
      await null;
      throw new Error(value);
    } catch (step) {
      sum += Number(step.message);
    }
  }
  return sum;
}

async function workers(first, last) {
  const running = [];
  for (let i = first; i <= last; i++) running.push(work(i));
  return (await Promise.all(running)).reduce((a, b) => a + b);
}

async function main() {
  const other = new Worker(__filename);
  const isRight = async () => {
    const half = new Promise((resolve) => other.once('message', resolve));
    other.postMessage('work');
    const own = (await workers(25, 49)) + nodes(tree(12)) + fib(20);
    return own + (await half) === 247706;
  };
  if (!(await isRight())) process.exit(1);
  console.log('ready');
  let rounds = 0;
  let wrong = 0;
  while (existsSync('keep')) {
    rounds++;
    if (!(await isRight())) wrong++;
  }
  await other.terminate();
  console.log(`rounds ${rounds} wrong ${wrong}`);
}

if (isMainThread) main();
else parentPort.on('message', async () => parentPort.postMessage(await workers(0, 24)));
