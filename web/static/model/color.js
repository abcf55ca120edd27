// Colours of functions. The hue shows the module or, in recordings with Python functions, whose code it
// is. Small differences in lightness separate neighbours, greys are frames without a name. The same
// names always have the same colour. No DOM.

// Lightness, chroma and hue (OKLCH) of modules; the first is the program itself. Found by a search for the
// largest distance between any two, and from the search colour, as people see them who have all kinds of cones,
// and those who lack one (tests/unit/web/js/color.test.mjs). So they differ in lightness, too.
const MODULES = {
  light: [
    [0.863, 0.078, 47],
    [0.93, 0.105, 105],
    [0.799, 0.105, 108],
    [0.72, 0.098, 134],
    [0.93, 0.103, 160],
    [0.84, 0.085, 193],
    [0.921, 0.056, 227],
    [0.739, 0.092, 234],
    [0.817, 0.091, 267],
    [0.779, 0.05, 26],
    [0.72, 0.105, 349],
  ],
  dark: [
    [0.441, 0.11, 49],
    [0.515, 0.11, 77],
    [0.336, 0.088, 93],
    [0.515, 0.055, 137],
    [0.428, 0.095, 162],
    [0.346, 0.083, 201],
    [0.514, 0.11, 208],
    [0.466, 0.11, 250],
    [0.3, 0.107, 255],
    [0.3, 0.067, 10],
    [0.451, 0.086, 327],
  ],
};
const SPREAD = { lightness: 0.012, hue: 4 }; // of the functions of one module, to tell neighbours apart
const TEXT = { light: '#1c1b22', dark: '#f4f3f7' };
const QUIET_TEXT = { light: '#4f4e59', dark: '#bbbac6' }; // on boxes that matter less
const PAPER = { light: '#ffffff', dark: '#131318' }; // as in css/base.css
const DIMMED = 0.3; // how much is left of the colour of boxes that a search does not match
const ANCESTOR = 0.62; // of the ancestors of the zoomed box
const GREYS = {
  light: { unknown: 0.83, syscall: 0.82, synthetic: 0.86, root: 0.91, run: 0.86 },
  dark: { unknown: 0.41, syscall: 0.37, synthetic: 0.34, root: 0.3, run: 0.33 },
};
const QUEUED = { light: [0.79, 0.12, 20], dark: [0.505, 0.11, 28] }; // waits for a CPU; drawn with stripes
const QUEUED_NAME = '[waiting for a CPU]';
/** Whose code a function is (profiler/symbols/interpreters/function_origin.py), as the legend lists it. */
export const ORIGINS = [
  { origin: 'project', label: 'yours', text: 'Code of the program itself' },
  { origin: 'library', label: 'library', text: 'Installed packages; of Java, packages that many programs use' },
  { origin: 'stdlib', label: 'standard library', text: 'What comes with the language: its standard library, the JDK' },
  { origin: 'native', label: 'C', text: 'Native code: the interpreter, C extensions, libraries' },
  { origin: 'kernel', label: 'kernel', text: 'System calls' },
];
// Lightness, chroma, hue. They differ in lightness, too, for people who see few hues
// (tests/unit/web/js/color.test.mjs).
const ORIGIN_SHADES = {
  light: {
    project: [0.79, 0.13, 62],
    library: [0.83, 0.105, 165],
    stdlib: [0.76, 0.095, 250],
    native: [0.915, 0.03, 20],
    kernel: [0.7, 0.015, 250],
  },
  dark: {
    project: [0.51, 0.115, 58],
    library: [0.455, 0.085, 165],
    stdlib: [0.49, 0.11, 255],
    native: [0.375, 0.03, 20],
    kernel: [0.29, 0.02, 250],
  },
};
const ORIGIN_SPREAD = 0.018; // of lightness, between neighbours
const MATCH = { light: [0.7, 0.17, 305], dark: [0.58, 0.19, 305] };

/** 32-bit FNV-1a. */
export function hashText(text) {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return hash >>> 0;
}

/** Converts OKLCH to "rgb(…)", because not every browser's canvas supports oklch().
 * Source: Björn Ottosson, "A perceptual color space for image processing", 2020. */
export function oklch(lightness, chroma, hueDegrees) {
  const a = chroma * Math.cos((hueDegrees * Math.PI) / 180);
  const b = chroma * Math.sin((hueDegrees * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const bytes = linear.map((value) => {
    const clamped = Math.min(1, Math.max(0, value));
    const encoded = clamped <= 0.0031308 ? 12.92 * clamped : 1.055 * clamped ** (1 / 2.4) - 0.055;
    return Math.round(255 * encoded);
  });
  return `rgb(${bytes.join(', ')})`;
}

/** Mixes two colours, each "#rrggbb" or "rgb(…)": `share` of the first. */
export function mix(one, other, share) {
  const [a, b] = [one, other].map(parts);
  return `rgb(${a.map((value, at) => Math.round(share * value + (1 - share) * b[at])).join(', ')})`;
}

function parts(color) {
  if (color.startsWith('#')) return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return color.match(/\d+/g).map(Number);
}

/** Returns true for the time of threads that could run, but had no CPU. */
export const isQueued = ({ name, kind }) => name === QUEUED_NAME && kind !== 'native';

/** Returns true for the mark between a function and a caller that may be another one. */
export const isGuess = ({ name, kind }) => name === '[guessed]' && kind === 'synthetic';

/** Returns the name of a library without its version: "libc" for "libc.so.6". */
function stem(module) {
  return module.replace(/(\.so)?[.\d]*$/, '');
}

/** Colours of boxes and modules for one theme, cached per function. */
export class Palette {
  /**
   * @param program name of the program; its own module has the first colour
   * @param hasPython true for a recording with Python functions: colours by origin
   */
  constructor(theme, program = '', hasPython = false) {
    this.theme = theme;
    this.program = program;
    this.hasPython = hasPython;
    this.text = TEXT[theme];
    this.quietText = QUIET_TEXT[theme];
    this.paper = PAPER[theme];
    this.match = oklch(...MATCH[theme]);
    this.matchText = theme === 'light' ? '#1a0f2e' : '#ffffff';
    this.root = oklch(GREYS[theme].root, 0.006, 260);
    this.run = oklch(GREYS[theme].run, 0.006, 260);
    this.known = new Map();
    this.faded = new Map();
  }

  /** Returns lightness, chroma and hue of a module. */
  shade(module) {
    const [own, ...others] = MODULES[this.theme];
    // "python3" runs "python3.11"
    if (this.program && stem(module) === stem(this.program)) return own;
    const hash = hashText(stem(module));
    // The low bits of FNV-1a are its weakest: the last letter alone determines much of them.
    return others[((hash ^ (hash >>> 15)) >>> 0) % others.length];
  }

  /** Returns the colour of a box that a search does not match: with its quiet text still legible. */
  dimmed(color) {
    return this.fade(color, DIMMED);
  }

  /** Returns the colour of an ancestor of the zoomed box. */
  ancestor(color) {
    return this.fade(color, ANCESTOR);
  }

  fade(color, share) {
    const key = `${share} ${color}`;
    let found = this.faded.get(key);
    if (found === undefined) {
      found = mix(color, PAPER[this.theme], share);
      this.faded.set(key, found);
    }
    return found;
  }

  /** Returns the colour of an origin. */
  origin(origin) {
    return oklch(...this.originShade(origin));
  }

  originShade(origin) {
    const shades = ORIGIN_SHADES[this.theme];
    return shades[origin] ?? shades.native; // "interpreter" is native code
  }

  /** Returns the colour of a function in lists. @param {{origin?: string, module: string}} f */
  swatch(f) {
    if (f.name && isQueued(f)) return this.box(f);
    if (f.kind === 'syscall' && f.origin) return this.origin('kernel');
    return f.origin ? this.origin(f.origin) : this.module(f.module);
  }

  /** Returns the colour of a module in lists. */
  module(module) {
    if (this.hasPython && module) return this.origin(module === 'Python' ? 'project' : 'native');
    if (!module) return oklch(GREYS[this.theme].syscall, 0.012, 260);
    return oklch(...this.shade(module));
  }

  /** Returns the colour of a function's box. @param {{kind: string, module: string, name: string, origin?: string}} f */
  box(f) {
    const key = `${f.kind}\0${f.origin}\0${f.module}\0${f.name}`;
    let color = this.known.get(key);
    if (color === undefined) {
      color = this.compute(f);
      this.known.set(key, color);
    }
    return color;
  }

  compute({ kind, module, name, origin }) {
    const greys = GREYS[this.theme];
    if (isQueued({ name, kind })) return oklch(...QUEUED[this.theme]);
    if (origin && kind === 'syscall') return this.origin('kernel');
    if (kind === 'syscall') return oklch(greys.syscall, 0.025, 240);
    if (kind === 'synthetic' || (!module && !origin)) return oklch(greys.synthetic, 0.008, 260);
    const offset = ((hashText(name) >>> 8) % 101) / 50 - 1; // -1 … 1
    if (origin) {
      const [base, tint, hue] = this.originShade(origin);
      return oklch(base + offset * ORIGIN_SPREAD, kind === 'unknown' ? 0.012 : tint, hue + offset * 5);
    }
    const [lightness, chroma, hue] = this.shade(module);
    const tinted = hue + offset * SPREAD.hue;
    if (kind === 'unknown') return oklch(greys.unknown + offset * SPREAD.lightness, 0.016, hue);
    const isInlined = kind === 'inlined';
    const toPaper = isInlined ? (this.theme === 'light' ? 0.02 : -0.02) : 0;
    return oklch(lightness + offset * SPREAD.lightness + toPaper, isInlined ? chroma * 0.7 : chroma, tinted);
  }
}
