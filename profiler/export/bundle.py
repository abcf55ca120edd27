"""Put modules into one script, style sheets into one, and the page into one HTML file. Pure.

The page has no build step but this one. Modules are found by their static imports, starting with
``main.js``. Each becomes a function that returns its exports, and they run in the order in which
they need each other. The server sends the page with its script and its style sheet: the eighty
files that they are made of took a browser a second. In a file with data instead of a server,
``server/connection.js`` is replaced by ``report/connection.js``, which answers from the data.

Refused, as the page does not use it: default exports, exports that change, cycles of imports, a
name that the imported module does not have; in a file, a template string of several lines.

The page's files are read as data: nothing is imported from ``web/``.

The file's own policy lets it run these scripts, known by their hashes, and reach nothing else. All
data is JSON in an element that no browser runs. In it ``<`` is escaped, so nothing can end it.
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import jinja2

# The module that a file has in another's place.
INSTEAD = {"server/connection.js": "report/connection.js"}
MAIN = "main.js"
SCRIPT, STYLE = "static/page.js", "static/page.css"  # of the page that is served
DATA_ID = "report-data"
_IMPORT = re.compile(
    r"^import\s+(?:\{(?P<names>[^}]*)\}\s+from\s+|\*\s+as\s+(?P<all>\w+)\s+from\s+)?"
    r"'(?P<path>[^']+)';[ \t]*$",
    re.MULTILINE,
)
_EXPORT = re.compile(
    r"^export\s+(?P<what>(?:async\s+)?function\*?|class|const)\s+(?P<name>\w+)", re.MULTILINE
)
_EXPORT_LIST = re.compile(r"^export\s+\{(?P<names>[^}]*)\};[ \t]*$", re.MULTILINE)
_OTHER_EXPORT = re.compile(r"^export\b.*$", re.MULTILINE)
# Comments that have lines of their own: a quarter of the text.
_COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*\*.*?\*/[ \t]*)\n", re.MULTILINE | re.DOTALL)
# The same in style sheets, and the indentation of lines.
_STYLE_SPACE = re.compile(r"^[ \t]*/\*.*?\*/[ \t]*\n|^[ \t]+", re.MULTILINE | re.DOTALL)
# In scripts: indentation and empty lines.
_SCRIPT_SPACE = re.compile(r"^[ \t]+|^\n", re.MULTILINE)
_STYLE = re.compile(r'[ \t]*<link rel="stylesheet" href="static/([^"]+)">\n')
_SCRIPT = re.compile(r'<script src="static/([^"]+)"></script>')
_MODULE = re.compile(r'[ \t]*<script type="module" src="static/main\.js"></script>\n')
_IMAGE = re.compile(r'"static/([\w./-]+\.svg)"')


class BundleError(ValueError):
    """The page cannot be put into one file: a fault of ours."""


def read_static(path: str) -> str:
    """Return the text of a file of the page, by its path in ``static/``."""
    return files("flametap.web").joinpath(f"static/{path}").read_text("utf-8")


def style(html: str) -> str:
    """Return the style sheets of the page as one, without comments and indentation."""
    return "".join(_STYLE_SPACE.sub("", read_static(path)) for path in _STYLE.findall(html))


def joined(html: str) -> str:
    """Return the page with one style sheet and one script in place of its files."""
    before, *_ = _STYLE.finditer(html)
    link = f'    <link rel="stylesheet" href="{STYLE}">\n'
    html = html[: before.start()] + link + _STYLE.sub("", html[before.end() :])
    script = f'    <script type="module" src="{SCRIPT}"></script>\n'
    return _MODULE.sub(script, html)


def page(data: str, variables: Mapping[str, Any]) -> str:
    """Return the page as one file.

    Args:
        data: JSON for ``report/connection.js``.
        variables: of the page's template.
    """
    source = files("flametap.web").joinpath("templates/index.html").read_text("utf-8")
    html = jinja2.Environment(autoescape=True).from_string(source).render(**variables)
    styles = style(html)
    html = _STYLE.sub("", html)
    scripts: list[str] = []

    def inline(found: re.Match[str]) -> str:
        scripts.append(_harmless(read_static(found[1])))
        return f"<script>{scripts[-1]}</script>"

    html = _SCRIPT.sub(inline, html)
    html = _IMAGE.sub(lambda found: f'"{_data_url(found[1])}"', html)
    scripts.append(_harmless(dense(bundle(MAIN, instead=INSTEAD))))
    html, n_modules = _MODULE.subn("", html)
    if n_modules != 1 or "static/" in html:
        raise BundleError("the template has a file that is not understood")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {_hash(styles)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    charset = '<meta charset="utf-8">'
    first = (
        f'{charset}\n    <meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '    <meta name="referrer" content="no-referrer">'
    )
    foot = (
        f'<script type="application/json" id="{DATA_ID}">{escaped(data)}</script>\n'
        f'<script type="module">{scripts[-1]}</script>\n  </body>'
    )
    for before, after in (
        ("<html ", "<html data-report "),
        (charset, first),  # it holds for what comes after it
        ("</head>", f"<style>{styles}</style>\n  </head>"),
        ("</body>", foot),
    ):
        if html.count(before) != 1:
            raise BundleError(f"the template has not one {before}")
        html = html.replace(before, after)
    return html


def escaped(data: str) -> str:
    """Return the same JSON without what could end or change the element that holds it."""
    for sign in "<>&\u2028\u2029":
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    return data


def bundle(
    main: str,
    read: Callable[[str], str] = read_static,
    instead: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return one script that does what a module and all that it imports do.

    Args:
        main: path of the module.
        read: path → text of a module.
        instead: path → the module to take in its place.

    Raises:
        BundleError: a module uses what is refused; see above.
    """
    exports: dict[str, list[str]] = {}
    parts: list[str] = []
    _add(main, read, instead, exports, parts, ())
    return '"use strict";\n' + "".join(parts)


def dense(script: str) -> str:
    """Return the same script without indentation and empty lines.

    Raises:
        BundleError: it may have a string of which they are a part.
    """
    for line in script.split("\n"):
        if line.count("`") % 2:
            raise BundleError(f"may be a string of several lines: {line}")
    return _SCRIPT_SPACE.sub("", script)


def _add(
    path: str,
    read: Callable[[str], str],
    instead: Mapping[str, str],
    exports: dict[str, list[str]],
    parts: list[str],
    above: tuple[str, ...],
) -> None:
    if path in above:
        raise BundleError(f"modules import each other: {' → '.join((*above, path))}")
    if path in exports:
        return
    text = read(path)

    def take(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found["path"]))
        target = instead.get(target, target)
        _add(target, read, instead, exports, parts, (*above, path))
        if found["all"]:
            return f"const {found['all']} = {_name(target)};"
        if found["names"] is None:
            return ""
        pairs = [word.split(" as ") for word in _words(found["names"])]
        missing = [pair[0] for pair in pairs if pair[0] not in exports[target]]
        if missing:
            raise BundleError(f"{path}: {target} has no {', '.join(missing)}")
        return f"const {{ {', '.join(': '.join(pair) for pair in pairs)} }} = {_name(target)};"

    text = _IMPORT.sub(take, _COMMENT.sub("", text))
    names = [found["name"] for found in _EXPORT.finditer(text)]
    text = _EXPORT.sub(r"\g<what> \g<name>", text)
    for found in _EXPORT_LIST.finditer(text):
        names += _words(found["names"])
    text = _EXPORT_LIST.sub("", text)
    if left := _OTHER_EXPORT.search(text) or re.search(r"^import\b.*$", text, re.MULTILINE):
        raise BundleError(f"{path}: not understood: {left[0]}")
    exports[path] = names
    end = f"return {{ {', '.join(names)} }};\n}})();\n"
    parts.append(f"// {path}\nconst {_name(path)} = (() => {{\n{text}\n{end}")


def _words(names: str) -> list[str]:
    return [" ".join(word.split()) for word in names.split(",") if word.strip()]


def _name(path: str) -> str:
    """Return the variable of a module: two paths never have the same."""
    return "$" + "".join(each if each.isalnum() else f"${ord(each):x}$" for each in path)


def _harmless(script: str) -> str:
    """Return the same script without what would end its element, which only texts have."""
    return re.sub("</(?=script)", r"<\\/", script, flags=re.IGNORECASE).replace("<!--", "<\\!--")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _data_url(path: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(read_static(path).encode()).decode()}"
