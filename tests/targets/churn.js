/*
 * Makes scripts, runs them and throws them away, on a heap that is collected all the time: outer_N calls inner_N, both of made_N.js, from
 * line N % 1000 + 1 on. Some are run until they are compiled by each of the engine's compilers. New ones get the memory of old ones. Says
 * how many there were; ends when its standard input does.
 */
'use strict';
const vm = require('vm');

let made = 0;
let kept = [];
let sum = 0;

function makeScript(number) {
    const text = `(function outer_${number}(times) {
        function inner_${number}(i) {
            const pair = { left: i, right: [i, i + 1] };
            return pair.right.map((each) => each ^ pair.left).length;
        }
        let all = 0;
        for (let i = 0; i < times; i++)
            all += inner_${number}(i);
        return all;
    })`;
    return vm.runInThisContext(text, { filename: `made_${number}.js`, lineOffset: number % 1000 });
}

function turn() {
    for (let i = 0; i < 20; i++) {
        const outer = makeScript(made++);
        const times = made % 11 === 0 ? 20000 : 100;
        for (let j = 0; j < 3; j++)
            sum += outer(times);
        kept.push(outer, new Array(made % 500).fill(sum));
        if (kept.length > 60)
            kept = kept.slice(-(made % 60));
    }
    if (global.gc && made % 100 === 0)
        global.gc();
    setImmediate(turn);
}

process.stdin.resume();
process.stdin.on('end', () => {
    console.log(`made ${made}`);
    process.exit(0);
});
setImmediate(turn);
console.log('ready ');
