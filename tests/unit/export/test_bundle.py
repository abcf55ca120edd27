"""The page as one file: modules become one script that does the same."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from flametap.export import bundle as web_bundle
from flametap.export.bundle import BundleError, bundle, dense, escaped

MODULES = {
    "main.js": """import { add, ONE as one } from './model/sum.js';
import * as sums from './model/sum.js';
import {
  Counter,
} from './page/counter.js';
import './model/effect.js';

const counter = new Counter();
console.log(add(one, 2), sums.ONE, counter.next(), globalThis.effect);
""",
    "model/sum.js": """// The first line is a comment.
export const ONE = 1;

/**
 * So are these.
 */
const local = 'main has one of this name, too';
export function add(a, b) {
  return a + b;
}
""",
    "page/counter.js": """import { add } from '../model/sum.js';
const local = 0;
export class Counter {
  next() {
    return add(local, 10);
  }
}
""",
    "model/effect.js": "globalThis.effect = 'ran once';\n",
}


def test_bundle_does_what_the_modules_do(require_capability: Callable[[str], str]) -> None:
    script = bundle("main.js", MODULES.__getitem__)
    command = [require_capability("node"), "--input-type=module", "--eval", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "3 1 10 ran once\n", done.stderr
    assert script.count("export ") == script.count("import ") == 0
    command[-1] = dense(script)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "3 1 10 ran once\n", done.stderr


def test_dense_script_keeps_all_of_its_strings() -> None:
    assert dense("if (a) {\n\n  b(`  c  `);\n}\n") == "if (a) {\nb(`  c  `);\n}\n"
    with pytest.raises(BundleError, match="string of several lines"):
        dense("a = `\n  b`;\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import { gone } from './model/sum.js';\n", "model/sum.js has no gone"),
        ("export default 3;\n", "not understood: export default 3;"),
        ("export let moving = 3;\n", "not understood: export let"),
        ("import sum from './model/sum.js';\n", "not understood: import sum"),
        ("import './main.js';\n", "import each other: main.js → main.js"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BundleError, match=problem):
        bundle("main.js", {**MODULES, "main.js": text}.__getitem__)


def test_script_cannot_end_its_element() -> None:
    text = "const a = '</script>'; const b = '</SCRIPT >'; const c = '<!--';"
    safe = web_bundle._harmless(text)
    assert "</" not in safe
    assert "<!--" not in safe


def test_data_cannot_end_its_element() -> None:
    assert escaped('"</script>\u2028&"') == '"\\u003c/script\\u003e\\u2028\\u0026"'


def test_stand_ins_have_the_names_of_what_they_stand_for() -> None:
    """So that each of the page's modules finds what it imports in a report, too."""
    for path, instead in web_bundle.INSTEAD.items():
        names = [
            {found["name"] for found in web_bundle._EXPORT.finditer(web_bundle.read_static(each))}
            for each in (path, instead)
        ]
        assert names[0] == names[1]
