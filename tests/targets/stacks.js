/*
 * Workers that park in deep stacks of their own: stacks.js WORKERS DEPTH WARM_UP FILE. Each writes new Error().stack into FILE just
 * before it sleeps; then all wait for the end of stdin. What calls what depends on the worker.
 */
'use strict';
const fs = require('fs');
const { Worker, isMainThread, workerData } = require('worker_threads');

Error.stackTraceLimit = Infinity;
let isParking = false;
let random = 0;

class Base {
    constructor(value) {
        this.value = value;
    }
    step(depth) {
        return this.value + choose(depth - 1);
    }
    get size() {
        return choose(this.depth);
    }
}

class Derived extends Base {
    step(depth) {
        const found =
            super.step(depth);
        return found + 1;
    }
    static make(depth) {
        return new Parked(depth).value;
    }
}

class Parked {
    constructor(depth) {
        this.value = choose(depth - 1);
    }
}

const objects = [new Base(1), new Derived(2)];
const arrow = (depth) => choose(depth - 1) | 0;
const assigned = function (depth) { return 1 + choose(depth - 1); };

function closure(depth) {
    return function inner(extra) {
        return extra + choose(depth - 1);
    };
}

function mapped(depth) {
    return [1].map((each) => each + choose(depth - 1)).length;
}

function caught(depth) {
    try {
        return choose(depth - 1);
    } finally {
        random += 1;
    }
}

function* generated(depth) {
    yield choose(depth - 1);
}

function looped(depth) {
    let sum = 0;
    for (let i = 0; i < 1; i++) {
        sum += choose(depth - 1);
    }
    return sum;
}

function getter(depth) {
    const object = objects[depth & 1];
    object.depth = depth - 1;
    return object.size;
}

function small(depth) { return tiny(depth) + 1; }
function tiny(depth) { return choose(depth - 1); }

function choose(depth) {
    if (depth <= 0) {
        return isParking ? park() : 1;
    }
    random = (random * 1103515245 + 12345) & 0x7fffffff;
    switch ((random >> 16) % 11) {
        case 0: return objects[depth & 1].step(depth);
        case 1: return arrow(depth);
        case 2: return closure(depth)(3);
        case 3: return mapped(depth);
        case 4: return looped(depth);
        case 5: return caught(depth);
        case 6: return generated(depth).next().value;
        case 7: return Derived.make(depth);
        case 8: return getter(depth);
        case 9: return small(depth);
        default: return assigned(depth);
    }
}

function park() {
    const [, , , , , file] = workerData.argv;
    const lines = new Error('parked').stack;
    fs.appendFileSync(file, `#${workerData.index}\n${lines}\n`);
    Atomics.add(workerData.parked, 0, 1);
    Atomics.notify(workerData.parked, 0);
    Atomics.wait(workerData.parked, 1, 0);
    return 1;
}

function work() {
    const [, , , depth, warmUp] = workerData.argv;
    random = workerData.index;
    for (let i = 0; i < Number(warmUp); i++) {
        choose(i % 12);
    }
    random = workerData.index;
    isParking = true;
    choose(Number(depth));
}

if (isMainThread) {
    const parked = new Int32Array(new SharedArrayBuffer(8));
    const count = Number(process.argv[2]);
    let left = count;
    for (let index = 0; index < count; index++) {
        const worker = new Worker(__filename, { workerData: { index, parked, argv: process.argv } });
        worker.on('exit', () => { if (--left === 0) console.log('done'); });
    }
    const timer = setInterval(() => {
        if (Atomics.load(parked, 0) === count) {
            clearInterval(timer);
            console.log('ready');
        }
    }, 5);
    process.stdin.on('end', () => {
        Atomics.store(parked, 1, 1);
        Atomics.notify(parked, 1);
    });
    process.stdin.resume();
} else {
    work();
}
