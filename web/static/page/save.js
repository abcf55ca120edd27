// The Save menu: every export, of what is shown or of the whole recording; pictures of the view; its stack as text.

import { pngOf, svgOf } from '../graph/picture.js';
import { fileName, openingAt, reportHash, shownPart, stackText } from '../model/keep.js';
import { exportQuery } from '../model/state.js';
import { weightName } from '../model/weight.js';
import { fetchFile, fetchJson } from '../server/connection.js';
import { copyText, download } from './download.js';
import { byId, choice, h, setText } from './dom.js';
import { Popover } from './popover.js';

export class Save {
  /**
   * @param getState the page's state
   * @param graph its view is what is saved as a picture
   * @param on {status() → model.Status, say(text)}
   */
  constructor(getState, graph, on) {
    Object.assign(this, { getState, graph, on });
    this.popover = new Popover('save-button', 'save-panel', () => this.list());
    this.exports = null; // of the server, once asked for
    this.part = 'shown'; // or 'whole'
    this.showPart = choice(byId('save-part'), (part) => this.choosePart(part));
    for (const [id, save] of [
      ['save-svg', () => this.savePicture('svg', svgOf)],
      ['save-png', () => this.savePicture('png', pngOf)],
      ['save-stack', () => this.copyStack()],
    ]) {
      byId(id).addEventListener('click', () => this.run(save));
    }
  }

  toggle() {
    this.popover.toggle();
  }

  close() {
    return this.popover.close();
  }

  /** Lists the server's exports; without a server, a saved report say, there are none. */
  async list() {
    this.choosePart('shown');
    if (this.exports) return;
    try {
      this.exports = (await fetchJson('exports')).exports;
    } catch {
      this.exports = null; // the next opening asks again
    }
    byId('save-exports').replaceChildren(...(this.exports ?? []).map((each) => this.item(each)));
    byId('save-exports-part').hidden = !this.exports?.length;
  }

  /** Chooses what the exports are of; where all is shown, there is no choice. */
  choosePart(part) {
    const state = this.getState();
    const words = shownPart(state, (this.on.status()?.duration_ns ?? 0) / 1e6);
    this.part = part;
    this.showPart(part);
    byId('save-part').hidden = words.length === 0;
    const said = part === 'whole' || !words.length ? 'The whole recording' : words.join(', ');
    const kept = state.compare ? `${said}. The comparison is not part of a file.` : said;
    setText(byId('save-what'), `${weightName(state.clock)}: ${kept}`);
  }

  item({ name, label, about }) {
    return h(
      'button',
      { type: 'button', class: 'menu-item', 'data-format': name, onclick: () => this.run(() => this.saveExport(name, this.part)) },
      h('span', {}, label),
      h('span', { class: 'dim' }, about),
    );
  }

  async run(save) {
    this.popover.close();
    try {
      this.on.say(await save());
    } catch (error) {
      const why = error instanceof TypeError ? 'flametap does not answer' : error.message; // fetch's own error
      this.on.say(`Could not save: ${why}`);
    }
  }

  /** @param part 'shown' or 'whole' */
  async saveExport(format, part) {
    this.on.say('Saving …');
    const query = exportQuery(this.getState(), part === 'shown');
    const { blob, name } = await fetchFile(`export?format=${format}&${query}`);
    download(format === 'html' ? await this.opening(blob) : blob, name);
    return `Saved ${name}`;
  }

  /** Has a report open with the clock, zoom and search of this page. */
  async opening(blob) {
    return new Blob([openingAt(await blob.text(), reportHash(this.getState()))], { type: blob.type });
  }

  async savePicture(extension, draw) {
    if (!this.graph.view) throw new Error('there is nothing yet');
    const status = this.on.status();
    const name = fileName(status, this.getState(), extension);
    download(await draw(this.graph, document.title), name);
    return `Saved ${name}`;
  }

  async copyStack() {
    const { view } = this.graph;
    const box = this.graph.selected() ?? view?.zoom.box ?? 0;
    if (!view || box === 0) throw new Error('select a box, or zoom to one, to copy its stack');
    await copyText(stackText(view, box));
    return 'Copied the stack';
  }
}
