// An HTTP server that works a little for each answer, with timers beside it. Says on which port; ends when its standard
// input does.
"use strict";

const http = require("http");
const zlib = require("zlib");

let served = 0;
const text = "some words in a row ".repeat(50);

const server = http.createServer((request, response) => {
  const words = text.split(" ").sort().join(" ");
  zlib.deflate(words, (error, packed) => {
    served++;
    if (error) response.statusCode = 500;
    response.end(packed);
  });
});

setInterval(() => {}, 1);
process.stdin.resume();
process.stdin.on("end", () => {
  console.log(`served ${served}`);
  process.exit(0);
});
server.listen(0, "127.0.0.1", () => console.log(`ready port=${server.address().port}`));
