// A small menu at a place of the page, for the mouse and for the keyboard: arrow keys, letters, Escape.

import { h } from './dom.js';

const EDGE_PX = 8;

export class Menu {
  constructor() {
    this.element = h('div', { class: 'menu', role: 'menu', tabindex: '-1', hidden: true });
    document.querySelector('main').append(this.element);
    this.element.addEventListener('keydown', (event) => this.key(event));
    document.addEventListener('pointerdown', (event) => {
      if (!this.element.contains(event.target)) this.close();
    });
    addEventListener('blur', () => this.close());
  }

  get isOpen() {
    return !this.element.hidden;
  }

  /**
   * Opens the menu.
   *
   * @param place {x, y} in the window
   * @param label what the menu is about, for screen readers and as its heading
   * @param items [{label, key, action}], null for a line between them
   */
  open({ x, y }, label, items) {
    this.returnTo = document.activeElement;
    this.items = items.filter(Boolean);
    const parts = items.map((item) => (item ? this.button(item) : h('hr', { role: 'separator' })));
    this.element.setAttribute('aria-label', label);
    this.element.replaceChildren(h('p', { class: 'menu-title', title: label, 'aria-hidden': 'true' }, label), ...parts);
    this.element.hidden = false;
    const { offsetWidth: width, offsetHeight: height, style } = this.element;
    style.left = `${Math.max(EDGE_PX, Math.min(x, innerWidth - width - EDGE_PX))}px`;
    style.top = `${Math.max(EDGE_PX, Math.min(y, innerHeight - height - EDGE_PX))}px`;
    this.buttons()[0].focus();
  }

  button({ label, key, action }) {
    const run = () => {
      this.close();
      action();
    };
    return h(
      'button',
      { type: 'button', role: 'menuitem', tabindex: '-1', 'aria-keyshortcuts': key ?? null, onclick: run },
      h('span', {}, label),
      key ? h('kbd', { 'aria-hidden': 'true' }, key.toUpperCase()) : null,
    );
  }

  buttons() {
    return [...this.element.querySelectorAll('button')];
  }

  close() {
    if (!this.isOpen) return false;
    const hadFocus = this.element.contains(document.activeElement);
    this.element.hidden = true;
    if (hadFocus) this.returnTo?.focus?.({ preventScroll: true });
    return true;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const buttons = this.buttons();
    const at = buttons.indexOf(document.activeElement);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 };
    if (event.key in steps) buttons[(steps[event.key] + buttons.length) % buttons.length].focus();
    else if (event.key === 'Escape' || event.key === 'Tab') this.close();
    else if (event.key === 'Enter' || event.key === ' ') return; // the button's own
    else {
      const item = this.items.findIndex(({ key }) => key === event.key.toLowerCase());
      if (item >= 0) buttons[item].click();
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
