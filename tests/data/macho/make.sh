#!/bin/sh
# Makes shapes.tar.xz beside it, and shapes.json: what llvm-symbolizer and llvm-nm say about the same files.
# Needs Debian's clang-14, lld-14 and llvm-14; no headers and no libraries of Apple's.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
V=${LLVM_VERSION:-14}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/shapes.cc" "$work"
cd "$work"
for arch in arm64 x86_64; do
    clang-$V -stdlib=libc++ -target $arch-apple-macos12 -O1 -g -fno-exceptions -fno-rtti -fdebug-prefix-map="$work"=/src -c shapes.cc
    ld64.lld-$V -arch $arch -platform_version macos 12 12 -undefined dynamic_lookup shapes.o -o shapes
    dsymutil-$V --flat shapes -o shapes.$arch.dwarf
    mv shapes shapes.$arch
    llvm-strip-$V -x shapes.$arch -o shapes.$arch.stripped
done
mkdir -p out/shapes.dSYM/Contents/Resources/DWARF
llvm-lipo-$V -create shapes.arm64 shapes.x86_64 -output out/shapes
llvm-lipo-$V -create shapes.arm64.stripped shapes.x86_64.stripped -output out/shapes.stripped
llvm-lipo-$V -create shapes.arm64.dwarf shapes.x86_64.dwarf -output out/shapes.dSYM/Contents/Resources/DWARF/shapes
python3 - "$V" >"$here/shapes.json" <<'PY'
import json, re, subprocess, sys
version, answer = sys.argv[1], {}
for arch in ("arm64", "x86_64"):
    def run(tool, *arguments, text=""):
        return subprocess.run([f"{tool}-{version}", *arguments], input=text, capture_output=True, text=True, check=True).stdout
    uuid = re.search(r"UUID: (\S+) ", run("llvm-dwarfdump", "--uuid", f"shapes.{arch}"))[1]
    names = [line.split(" ", 2) for line in run("llvm-nm", "--defined-only", f"shapes.{arch}").splitlines()]
    functions = {name: int(addr, 16) for addr, kind, name in names if kind in "tT" and "_mh_" not in name}
    first, last = min(functions.values()), max(functions.values()) + 32
    text = "".join(f"{addr:#x}\n" for addr in range(first, last, 4))
    out = run("llvm-symbolizer", f"--obj=shapes.{arch}.dwarf", "--inlines", "--output-style=JSON", "--no-demangle", text=text)
    chains = {}
    for line in map(json.loads, out.splitlines()):
        chains[int(line["Address"], 16)] = [[s["FunctionName"], s["FileName"], s["Line"]] for s in line["Symbol"][::-1]]
    answer[arch] = {"uuid": uuid.replace("-", "").lower(), "functions": functions, "outermost_first": chains}
json.dump(answer, sys.stdout, separators=(",", ":"), sort_keys=True)
PY
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C out -cJf "$here/shapes.tar.xz" .
