// Brings a part of the page up to date without making anew what is there already: focus, selected text,
// a pressed button and the scroll position survive. A part is built as if it were new, with h() of dom.js,
// and only the differences reach the document.

/** Returns true if an element must not be moved in the document: that would take its focus or selection. */
function isPinned(element) {
  if (element.contains(document.activeElement)) return true;
  const selection = document.getSelection();
  return Boolean(selection && !selection.isCollapsed && element.contains(selection.anchorNode));
}

const isElement = (node) => node.nodeType === Node.ELEMENT_NODE;
const keyOf = (node) => (isElement(node) ? node.dataset.key : undefined);

/** Returns true if an old node can become like a new one. */
function isAlike(old, fresh) {
  return old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh) && old.namespaceURI === fresh.namespaceURI;
}

/**
 * Gives `parent` the children `fresh`: nodes, texts, and nulls, which count for nothing. An element with the
 * same data-key, or without keys of the same kind at the same place, stays and gets the new one's
 * attributes, listeners and children.
 */
export function reconcile(parent, fresh) {
  const wanted = fresh
    .flat(Infinity)
    .filter((each) => each !== null && each !== undefined && each !== false && each !== '')
    .map((each) => (each instanceof Node ? each : document.createTextNode(each)));
  const keyed = new Map();
  const unkeyed = [];
  for (const node of parent.childNodes) {
    if (keyOf(node) === undefined) unkeyed.push(node);
    else keyed.set(keyOf(node), node);
  }
  const result = wanted.map((node) => {
    const key = keyOf(node);
    const at = key === undefined ? unkeyed.findIndex((old) => isAlike(old, node)) : -1;
    const old = key === undefined ? unkeyed[at] : keyed.get(key);
    if (!old || old === node || !isAlike(old, node)) return node;
    if (key === undefined) unkeyed.splice(0, at + 1); // those before it match nothing that follows
    else keyed.delete(key);
    become(old, node);
    return old;
  });
  const kept = new Set(result);
  for (const node of [...parent.childNodes]) if (!kept.has(node)) node.remove();
  place(parent, result);
}

function become(old, fresh) {
  if (!isElement(old)) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    const isKept = name === 'style' || (name === 'open' && old instanceof HTMLDetailsElement); // the user opened it
    if (!isKept && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== 'style' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  // By the CSSOM: the security policy forbids style attributes.
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  if (old instanceof HTMLInputElement && old.checked !== fresh.checked) old.checked = fresh.checked;
  old.listeners = fresh.listeners;
  reconcile(old, [...fresh.childNodes]);
}

/** Puts the nodes into this order. The others are moved around one that is pinned. */
function place(parent, wanted) {
  let next = parent.firstChild;
  for (const node of wanted) {
    if (node === next) {
      next = next.nextSibling;
    } else if (node.parentNode === parent && isElement(node) && isPinned(node)) {
      while (next !== node) {
        const moved = next;
        next = next.nextSibling;
        node.after(moved);
      }
      next = node.nextSibling;
    } else {
      parent.insertBefore(node, next);
    }
  }
}
