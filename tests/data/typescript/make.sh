#!/bin/sh
# Make dist/ and bundle/ again: make.sh FOLDER, where FOLDER has node_modules with typescript@5, esbuild and @types/node.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
modules=$1/node_modules
cd "$here"
rm -rf dist bundle
"$modules/.bin/tsc" --project tsconfig.json --typeRoots "$modules/@types"
"$modules/.bin/esbuild" src/app.ts --bundle --minify --platform=node --sourcemap --outfile=bundle/app.js
