// Loaded before anything is painted, so that the page never flashes in the other theme. A classic
// script: modules run too late for that.
'use strict';
try {
  const theme = localStorage.getItem('flametap.theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // No storage (a private window, say): the system's preference holds.
}
