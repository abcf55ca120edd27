// Sets the theme before the first paint, so that the page does not flash in the other theme. This is
// a classic script because modules run too late.
'use strict';
try {
  const theme = localStorage.getItem('flametap.theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // No storage (a private window, say): the system's theme is used.
}
