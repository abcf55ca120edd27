// Colours of functions. The hue shows the module or, in recordings with Python functions, whose code it
// is. Small differences in lightness separate neighbours, greys are frames without a name. The same
// names always have the same colour. No DOM.

// Hues of OKLCH that differ clearly from each other, from the search colour (violet, 305), and from
// the hue of the program itself.
const HUES = [88, 112, 138, 160, 184, 208, 232, 258, 12, 345];
const PROGRAM_HUE = 55;

const SHADES = {
  light: { lightness: 0.845, spread: 0.035, chroma: 0.082, text: '#1c1b22' },
  dark: { lightness: 0.5, spread: 0.035, chroma: 0.085, text: '#f4f3f7' },
};
const GREYS = {
  light: { unknown: 0.83, syscall: 0.86, synthetic: 0.89, root: 0.92, run: 0.88 },
  dark: { unknown: 0.41, syscall: 0.37, synthetic: 0.34, root: 0.3, run: 0.33 },
};
/** Whose code a function is (flametap.analysis.origins), as the legend lists it. */
export const ORIGINS = [
  { origin: 'project', label: 'yours', text: 'Python code of the program itself' },
  { origin: 'library', label: 'library', text: 'Python code of installed packages' },
  { origin: 'stdlib', label: 'standard library', text: "Python's own standard library" },
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

/** Returns the name of a library without its version: "libc" for "libc.so.6". */
function stem(module) {
  return module.replace(/(\.so)?[.\d]*$/, '');
}

/** Colours of boxes and modules for one theme, cached per function. */
export class Palette {
  /**
   * @param program name of the program; its own module has PROGRAM_HUE
   * @param hasPython true for a recording with Python functions: colours by origin
   */
  constructor(theme, program = '', hasPython = false) {
    this.theme = theme;
    this.program = program;
    this.hasPython = hasPython;
    this.text = SHADES[theme].text;
    this.match = oklch(...MATCH[theme]);
    this.matchText = theme === 'light' ? '#1a0f2e' : '#ffffff';
    this.root = oklch(GREYS[theme].root, 0.006, 260);
    this.run = oklch(GREYS[theme].run, 0.006, 260);
    this.known = new Map();
  }

  hue(module) {
    // "python3" runs "python3.11"
    if (this.program && stem(module) === stem(this.program)) return PROGRAM_HUE;
    const hash = hashText(stem(module));
    // The low bits of FNV-1a are its weakest: the last letter alone determines much of them.
    return HUES[((hash ^ (hash >>> 15)) >>> 0) % HUES.length];
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
    return f.origin ? this.origin(f.origin) : this.module(f.module);
  }

  /** Returns the colour of a module in lists. */
  module(module) {
    if (this.hasPython && module) return this.origin(module === 'Python' ? 'project' : 'native');
    if (!module) return oklch(GREYS[this.theme].syscall, 0.012, 260);
    const { chroma } = SHADES[this.theme];
    return oklch(this.theme === 'light' ? 0.74 : 0.6, chroma + 0.03, this.hue(module));
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
    if (origin && kind === 'syscall') return this.origin('kernel');
    if (kind === 'syscall') return oklch(greys.syscall, 0.025, 240);
    if (kind === 'synthetic' || !module) return oklch(greys.synthetic, 0.008, 260);
    const { lightness, spread, chroma } = SHADES[this.theme];
    const offset = ((hashText(name) >>> 8) % 101) / 50 - 1; // -1 … 1
    if (origin) {
      const [base, tint, hue] = this.originShade(origin);
      return oklch(base + offset * ORIGIN_SPREAD, kind === 'unknown' ? 0.012 : tint, hue + offset * 5);
    }
    if (kind === 'unknown') {
      return oklch(greys.unknown + offset * spread * 0.5, 0.016, this.hue(module));
    }
    const toPaper = kind === 'inlined' ? (this.theme === 'light' ? 0.045 : -0.045) : 0;
    return oklch(
      lightness + offset * spread + toPaper,
      kind === 'inlined' ? chroma * 0.72 : chroma,
      this.hue(module) + offset * 9,
    );
  }
}
