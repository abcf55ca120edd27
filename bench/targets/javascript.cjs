/*
 * Real JavaScript programs, for ever: javascript.cjs NAME [profiled], in a folder with their packages. A line "state" on stdin is answered with
 * the operations done (requests, builds) and the CPU time used until the last of them; "start" and "stop FILE" are the engine's own profiler.
 * With "profiled" that also runs from the beginning, seldom, so that code is compiled for it. Ends when stdin does.
 */
"use strict";
const fs = require("fs");
const path = require("path");
const inspector = require("inspector");
const from = require("module").createRequire(path.join(process.cwd(), "package.json"));

let operations = 0, used_us = 0;
function operationDone() {
    const used = process.cpuUsage();
    operations++;
    used_us = used.user + used.system;
}
const turn = () => new Promise((done) => setImmediate(done));

function filesOf(folder, ending, most) {
    return fs.readdirSync(path.join("node_modules", folder), { recursive: true })
        .filter((name) => name.endsWith(ending))
        .sort()
        .slice(0, most)
        .map((name) => path.resolve("node_modules", folder, name));
}

const products = Array.from({ length: 40 }, (_, id) => ({ id, name: `product ${id}`, tags: ["a", "b", "c"], price: id * 1.25 }));
const rankProducts = (query) => products
    .map((each) => ({ ...each, score: [...each.name].filter((c) => query.includes(c)).length }))
    .sort((a, b) => b.score - a.score || a.name.localeCompare(b.name));
const renderPage = (found) => found.map((each) => `<li>${each.name.replace(/[<>&]/g, "")}: ${each.price.toFixed(2)}</li>`).join("\n");

const programs = {
    express() {
        const express = from("express");
        const app = express();
        app.use(express.json());
        app.use(function countRequest(request, response, next) { operationDone(); next(); });
        app.get("/search/:query", (request, response) => response.json(rankProducts(request.params.query)));
        app.get("/page/:query", (request, response) => response.type("html").send(renderPage(rankProducts(request.params.query))));
        const server = app.listen(0, "127.0.0.1", () => console.log(`port ${server.address().port}`));
    },
    async fastify() {
        const app = from("fastify")();
        app.addHook("onRequest", async function countRequest() { operationDone(); });
        app.get("/search/:query", async (request) => rankProducts(request.params.query));
        app.get("/page/:query", async (request, reply) => reply.type("text/html").send(renderPage(rankProducts(request.params.query))));
        await app.listen({ port: 0, host: "127.0.0.1" });
        console.log(`port ${app.server.address().port}`);
    },
    async webpack() {
        const webpack = from("webpack");
        const entry = path.resolve("entry.mjs");
        fs.writeFileSync(entry, 'import * as a from "lodash-es"; import * as b from "rxjs"; console.log(Object.keys(a), Object.keys(b));');
        console.log("port 0");
        for (;;) {
            await new Promise((done, fail) => {
                const compiler = webpack({ mode: "production", entry, cache: false, optimization: { minimize: false }, output: { path: path.resolve("out") } });
                compiler.run((error) => compiler.close(() => (error ? fail(error) : done())));
            });
            operationDone();
        }
    },
    async tsc() {
        const ts = from("typescript");
        const files = filesOf("rxjs/src/internal", ".ts", 60);
        console.log("port 0");
        for (;;) {
            const program = ts.createProgram(files, { strict: true, noEmit: true, types: [], target: ts.ScriptTarget.ES2020 });
            for (const file of program.getSourceFiles()) {
                program.getSemanticDiagnostics(file);
                await turn();
            }
            operationDone();
        }
    },
    async eslint() {
        const { Linter } = from("eslint");
        const files = filesOf("lodash-es", ".js", 200).map((file) => fs.readFileSync(file, "utf8"));
        const rules = Object.fromEntries(["no-unused-vars", "no-undef", "prefer-const", "eqeqeq", "no-shadow", "complexity", "curly", "no-redeclare"].map((rule) => [rule, "error"]));
        console.log("port 0");
        for (;;) {
            const linter = new Linter();
            for (const file of files) {
                linter.verify(file, [{ rules }]);
                await turn();
            }
            operationDone();
        }
    },
    async prettier() {
        const prettier = from("prettier");
        const files = filesOf("rxjs/src/internal", ".ts", 60).map((file) => fs.readFileSync(file, "utf8"));
        console.log("port 0");
        for (;;) {
            for (const file of files) {
                await prettier.format(file, { parser: "typescript" });
                await turn();
            }
            operationDone();
        }
    },
};

const session = new inspector.Session();
const always = new inspector.Session();
function startAlways() {
    always.connect();
    always.post("Profiler.enable");
    always.post("Profiler.setSamplingInterval", { interval: 1e6 });
    always.post("Profiler.start");
}
const commands = {
    state() {
        console.log(JSON.stringify({ operations, cpu_us: used_us }));
    },
    start() {
        session.connect();
        session.post("Profiler.enable");
        session.post("Profiler.setSamplingInterval", { interval: 1000 });
        session.post("Profiler.start", () => console.log("started"));
    },
    stop(file) {
        session.post("Profiler.stop", (error, { profile }) => {
            fs.writeFileSync(file, JSON.stringify(profile));
            session.disconnect();
            console.log("stopped");
        });
    },
};
let rest = "";
process.stdin.on("data", (data) => {
    const lines = (rest + data).split("\n");
    rest = lines.pop();
    for (const line of lines) {
        const [name, ...words] = line.split(" ");
        commands[name](...words);
    }
});
process.stdin.on("end", () => process.exit(0));
if (process.argv[3] === "profiled")
    startAlways();
programs[process.argv[2]]();
