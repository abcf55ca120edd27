// The theme, dark or light: the user's earlier choice (theme.js reads it first), else the system's.

import { byId, icon } from './dom.js';

const prefersDark = matchMedia('(prefers-color-scheme: dark)');

export function theme() {
  return document.documentElement.dataset.theme ?? (prefersDark.matches ? 'dark' : 'light');
}

export function toggleTheme() {
  const next = theme() === 'dark' ? 'light' : 'dark';
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem('flametap.theme', next);
  } catch {
    // No storage: the choice lasts as long as the page.
  }
  dispatchEvent(new Event('themechange'));
}

/** Calls back now and at each change of the theme, by the user or the system. */
export function followTheme(callback) {
  const apply = () => {
    byId('theme-icon').replaceChildren(icon(theme() === 'dark' ? 'sun' : 'moon'));
    callback(theme());
  };
  prefersDark.addEventListener('change', apply);
  addEventListener('themechange', apply);
  byId('theme').addEventListener('click', toggleTheme);
  apply();
}

/** Returns how much larger than usual the user wants text: 1 for a font of 16 pixels. */
export function rem() {
  return parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;
}

/** Returns a colour of the style sheet. */
export function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Returns what the timeline is drawn with (timeline/paint.js). */
export function timelineStyle() {
  const colors = ['ink', 'muted', 'line', 'paper', 'focus', 'match'].map((name) => [name, cssColor(`--${name}`)]);
  return { theme: theme(), font: `${11 * rem()}px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`, ...Object.fromEntries(colors) };
}
