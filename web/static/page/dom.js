// The DOM operations of the page. Text is always inserted as text, never as markup.

import { visible } from '../model/text.js';

export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

const SPOKEN = ['title', 'aria-label'];

/** Creates an element: h('td', {class: 'name', title: 'x', onclick: f}, 'text', child, null). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  element.listeners = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) listen(element, name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : SPOKEN.includes(name) ? visible(value) : value);
  }
  const shown = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  element.append(...shown.map((child) => (child instanceof Node ? child : visible(child))));
  return element;
}

/** Listens with a function that reconcile() may exchange. */
function listen(element, name, listener) {
  element.listeners[name] = listener;
  element.addEventListener(name, (event) => element.listeners[name]?.(event));
}

/** Creates an icon from the sprite in index.html. */
export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  use.setAttribute('href', `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** Sets text only if it changes, so that screen readers do not repeat a live region. */
export function setText(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

/** Sets the text that the browser shows for a hovered element. */
export function setTitle(element, text) {
  const shown = visible(text);
  if (element.title !== shown) element.title = shown;
}

/** Has a text read out by screen readers. Only for what the user has just done: updates are not read out. */
export function announce(text) {
  setText(byId('announcement'), text);
}

/** Creates a bar whose width is a share (0 … 1), set by CSSOM: the CSP forbids style attributes. */
export function bar(className, share) {
  const element = h('span', { class: className });
  element.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
  return element;
}

/** Creates a small square of a colour. */
export function swatch(color) {
  const element = h('span', { class: 'swatch' });
  element.style.background = color;
  return element;
}

/** Makes a group of buttons with data-value a choice of one. Returns a function that marks a value. */
export function choice(group, onChoose) {
  const buttons = [...group.querySelectorAll('button[data-value]')];
  group.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-value]');
    if (button) onChoose(button.dataset.value);
  });
  return (value) => {
    for (const button of buttons) {
      button.setAttribute('aria-pressed', String(button.dataset.value === value));
    }
  };
}

export function isTyping(event) {
  const target = event.target;
  return target instanceof HTMLElement && target.matches('input:not([type="checkbox"]), textarea, select');
}
