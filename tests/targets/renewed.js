/*
 * Code that is thrown away all the time, and its memory used again: each generation K of functions is made of text, called
 * until it is compiled, and dropped. outer_K calls only middle_K, that only inner_K, which allocates. Ends with its input.
 */
'use strict';
let isEnding = false;
let kept = [];

function generation(number) {
    return new Function(`
        function inner_${number}(n) {
            let sum = 0;
            const made = [];
            for (let i = 0; i < n; i++) {
                sum += Math.sqrt(i + ${number % 97}) % 7;
                if (i % 16 === 0) made.push({ i, at: () => sum + i });
            }
            return sum + made[made.length - 1].at();
        }
        function middle_${number}(n) { const found = inner_${number}(n); return found + 1; }
        function outer_${number}(n) { const found = middle_${number}(n); return found * 2; }
        return outer_${number};`)();
}

function round(number) {
    const outer = generation(number);
    const end = Date.now() + (number % 8 === 0 ? 60 : 4);
    let sum = 0;
    while (Date.now() < end) sum += outer(500);
    kept.push(sum, outer);
    if (kept.length > 64) kept = [];
    return sum;
}

let number = 0;
function turn() {
    if (isEnding) {
        console.log('done', number);
        return;
    }
    round(number++);
    setImmediate(turn);
}

process.stdin.on('end', () => { isEnding = true; });
process.stdin.resume();
console.log('ready');
turn();
