/* Busy below so many frames: deep.cjs FRAMES. Prints "ready"; ends with its standard input. */
"use strict";

function descend(frames, rounds) {
    if (frames > 0) return descend(frames - 1, rounds) + 1;
    let value = 1;
    for (let i = 0; i < rounds; i++) value = (Math.imul(value, 69069) + i) | 0;
    return value;
}

const frames = Number(process.argv[2]) - 2;
for (let i = 0; i < 20000; i++) descend(frames, 10);
console.log("ready");
setImmediate(function busy() {
    const end = Date.now() + 100;
    while (Date.now() < end) descend(frames, 1000000);
    setImmediate(busy);
});
process.stdin.on("end", () => process.exit(0)).resume();
