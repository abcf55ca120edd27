// The few DOM operations the page needs. Text only ever goes in as text, never as markup.

export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** Creates an element: h('td', {class: 'name', title: 'x', onclick: f}, 'text', child, null). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An icon of the sprite in index.html. */
export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  use.setAttribute('href', `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** Sets text only where it changed: a live region is then not read out again for nothing. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A bar as wide as a share; the CSSOM is what the content security policy leaves for that. */
export function bar(className, share) {
  const element = h('span', { class: className });
  element.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
  return element;
}

/** Makes a group of buttons with data-value a choice of one. */
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
  return target instanceof HTMLElement && target.matches('input:not([type="checkbox"])');
}
