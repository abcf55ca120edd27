"use strict";
Object.defineProperty(exports, "__esModule", { value: true });
/*
 * Parks in a deep stack: app.js FILE. Writes new Error().stack into FILE just before, and waits for the end of stdin.
 */
const fs_1 = require("fs");
const ledger_1 = require("./ledger");
var Turn;
(function (Turn) {
    Turn[Turn["Arrow"] = 0] = "Arrow";
    Turn[Turn["Generic"] = 1] = "Generic";
    Turn[Turn["Ledger"] = 2] = "Ledger";
    Turn[Turn["Nested"] = 3] = "Nested";
})(Turn || (Turn = {}));
Error.stackTraceLimit = 200;
let file;
const throughArrow = (place) => choose({ depth: place.depth - 1 }) + 1;
function throughGeneric(place) {
    const doubled = choose({ depth: place.depth - 1 }) * 2;
    return doubled;
}
var Nested;
(function (Nested) {
    function inside(place) {
        return [place]
            .map((each) => choose({ depth: each.depth - 1 }))
            .reduce((sum, each) => sum + each, 0);
    }
    Nested.inside = inside;
})(Nested || (Nested = {}));
function choose(place) {
    if (place.depth <= 0) {
        return file === undefined ? 1 : park(file);
    }
    switch (place.depth % 4) {
        case Turn.Arrow:
            return throughArrow(place);
        case Turn.Generic:
            return throughGeneric(place);
        case Turn.Ledger:
            return ledger_1.Ledger.from(place.depth - 1, (depth) => choose({ depth }));
        default:
            return Nested.inside(place);
    }
}
function park(path) {
    var _a;
    (0, fs_1.writeFileSync)(path, (_a = new Error("here").stack) !== null && _a !== void 0 ? _a : "");
    (0, fs_1.writeSync)(1, "ready \n");
    const bytes = (0, fs_1.readSync)(0, Buffer.alloc(1));
    return bytes;
}
async function main(path) {
    for (let round = 0; round < 3000; round++) {
        choose({ depth: 20 });
    }
    await null;
    file = path;
    choose({ depth: 20 });
    (0, fs_1.writeSync)(1, "done\n");
}
void main(process.argv[2]);
//# sourceMappingURL=app.js.map