/*
 * Parks in a deep stack: app.js FILE. Writes new Error().stack into FILE just before, and waits for the end of stdin.
 */
import { readSync, writeFileSync, writeSync } from "fs";
import { Ledger } from "./ledger";

interface Place {
    readonly depth: number;
}

enum Turn {
    Arrow,
    Generic,
    Ledger,
    Nested,
}

Error.stackTraceLimit = 200;
let file: string | undefined;

const throughArrow = (place: Place): number => choose({ depth: place.depth - 1 }) + 1;

function throughGeneric<T extends Place>(place: T): number {
    const doubled: number = choose({ depth: place.depth - 1 }) * 2;
    return doubled;
}

namespace Nested {
    export function inside(place: Place): number {
        return [place]
            .map((each: Place): number => choose({ depth: each.depth - 1 }))
            .reduce((sum, each) => sum + each, 0);
    }
}

function choose(place: Place): number {
    if (place.depth <= 0) {
        return file === undefined ? 1 : park(file);
    }
    switch (place.depth % 4) {
        case Turn.Arrow:
            return throughArrow(place);
        case Turn.Generic:
            return throughGeneric(place);
        case Turn.Ledger:
            return Ledger.from(place.depth - 1, (depth: number) => choose({ depth }));
        default:
            return Nested.inside(place);
    }
}

function park(path: string): number {
    writeFileSync(path, new Error("here").stack ?? "");
    writeSync(1, "ready \n");
    const bytes: number = readSync(0, Buffer.alloc(1));
    return bytes;
}

async function main(path: string): Promise<void> {
    for (let round = 0; round < 3000; round++) {
        choose({ depth: 20 });
    }
    await null;
    file = path;
    choose({ depth: 20 });
    writeSync(1, "done\n");
}

void main(process.argv[2]);
