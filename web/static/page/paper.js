// Prints in the light theme, whatever the screen has: paper is white.

/** @param graph its canvas is drawn anew at once: the next frame would be too late */
export function printOnWhite(graph) {
  const root = document.documentElement;
  let before;
  const use = (theme) => {
    if (theme === undefined) delete root.dataset.theme;
    else root.dataset.theme = theme;
    dispatchEvent(new Event('themechange'));
    graph.draw(performance.now());
  };
  addEventListener('beforeprint', () => {
    before = root.dataset.theme;
    use('light');
  });
  addEventListener('afterprint', () => use(before));
}
