"""The colours of boxes on light paper: the same as the page's (``web/static/model/color.js``).

The hue shows the module or, in recordings with Python functions, whose code a function is. Small
differences in lightness separate neighbours; greys are frames without a name.

Source: Björn Ottosson, "A perceptual color space for image processing", 2020 (OKLCH); FNV-1a.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from ..model import FrameKind, Function

TEXT = "#1c1b22"
# Lightness, chroma, hue of modules; the first is the program itself.
MODULES = (
    (0.863, 0.078, 47),
    (0.93, 0.105, 105),
    (0.799, 0.105, 108),
    (0.72, 0.098, 134),
    (0.93, 0.103, 160),
    (0.84, 0.085, 193),
    (0.921, 0.056, 227),
    (0.739, 0.092, 234),
    (0.817, 0.091, 267),
    (0.779, 0.05, 26),
    (0.72, 0.105, 349),
)
ORIGINS: dict[str, tuple[float, float, float]] = {
    "project": (0.79, 0.13, 62),
    "library": (0.83, 0.105, 165),
    "stdlib": (0.76, 0.095, 250),
    "native": (0.915, 0.03, 20),
    "kernel": (0.7, 0.015, 250),
}
LIGHTNESS_SPREAD, HUE_SPREAD = 0.012, 4  # of the functions of one module
ORIGIN_LIGHTNESS_SPREAD, ORIGIN_HUE_SPREAD = 0.018, 5
UNKNOWN, SYSCALL, SYNTHETIC, ROOT, RUN = 0.83, 0.82, 0.86, 0.91, 0.86  # lightness of greys
QUEUED = (0.79, 0.12, 20)
QUEUED_NAME = "[waiting for a CPU]"


def root_color() -> str:
    """Return the colour of the root."""
    return oklch(ROOT, 0.006, 260)


def run_color() -> str:
    """Return the colour of a run of narrow boxes."""
    return oklch(RUN, 0.006, 260)


def box_color(function: Function, origin: str, program: str) -> str:
    """Return the colour of a function's box, "rgb(…)".

    Args:
        function: the function.
        origin: whose code it is; "" in recordings without Python functions.
        program: name of the program: its own module has the first colour.
    """
    kind, name, module = function.kind, function.name, function.module
    if name == QUEUED_NAME and kind is not FrameKind.NATIVE:
        return oklch(*QUEUED)
    if kind is FrameKind.SYSCALL:
        return oklch(*ORIGINS["kernel"]) if origin else oklch(SYSCALL, 0.025, 240)
    if kind is FrameKind.SYNTHETIC or not (module or origin):
        return oklch(SYNTHETIC, 0.008, 260)
    offset = (_fnv1a(name) >> 8) % 101 / 50 - 1
    is_unknown, is_inlined = kind is FrameKind.UNKNOWN, kind is FrameKind.INLINED
    if origin:
        lightness, chroma, hue = ORIGINS.get(origin, ORIGINS["native"])
        lightness += offset * ORIGIN_LIGHTNESS_SPREAD
        return oklch(lightness, 0.012 if is_unknown else chroma, hue + offset * ORIGIN_HUE_SPREAD)
    lightness, chroma, hue = _shade(module, program)
    if is_unknown:
        return oklch(UNKNOWN + offset * LIGHTNESS_SPREAD, 0.016, hue)
    lightness += offset * LIGHTNESS_SPREAD + (0.02 if is_inlined else 0)
    return oklch(lightness, chroma * 0.7 if is_inlined else chroma, hue + offset * HUE_SPREAD)


@lru_cache(1 << 16)
def oklch(lightness: float, chroma: float, hue_degrees: float) -> str:
    """Convert a colour to "rgb(…)"."""
    hue = math.radians(hue_degrees)
    a, b = chroma * math.cos(hue), chroma * math.sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
    )
    return f"rgb({', '.join(str(_encoded(value)) for value in linear)})"


def _encoded(value: float) -> int:
    value = min(1.0, max(0.0, value))
    encoded = 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
    return math.floor(255 * encoded + 0.5)


def _shade(module: str, program: str) -> tuple[float, float, float]:
    own, *others = MODULES
    if program and _stem(module) == _stem(program):
        return own
    mixed = _fnv1a(_stem(module))
    return others[(mixed ^ mixed >> 15) % len(others)]


def _stem(module: str) -> str:
    """Return the name of a library without its version: "libc" for "libc.so.6"."""
    return re.sub(r"(\.so)?[.0-9]*$", "", module, count=1)


def _fnv1a(text: str) -> int:
    """Return the 32-bit FNV-1a of the UTF-16 code units, as JavaScript sees a text."""
    found = 0x811C9DC5
    encoded = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(encoded), 2):
        unit = encoded[at] | encoded[at + 1] << 8
        found = (found ^ unit) * 0x01000193 & 0xFFFFFFFF
    return found
