// Writes the pixels of lanes. There may be 50 000 boxes of a few pixels each: as pixels of one picture they take a few
// milliseconds, as boxes with patterns a hundred.

import { ACTIVITIES } from '../model/timeline.js';

const FULL = 50; // of a share

export class LaneRaster {
  /** @param tiles activity → {size, pixels: Uint32Array}: its pattern, in device pixels */
  constructor(width, height, tiles) {
    this.picture = new ImageData(width, height);
    this.pixels = new Uint32Array(this.picture.data.buffer);
    Object.assign(this, { width, height, tiles });
  }

  /**
   * Stacks the activities of each bin. Sizes are device pixels.
   *
   * @param row {lane, bins, top, height}; @param span {from, to}: the time of the whole width; @param activities that
   *   are drawn
   */
  draw({ lane, bins, top, height }, span, activities = ACTIVITIES) {
    const { width } = this;
    const msAPixel = (span.to - span.from) / width;
    const shown = activities.filter((activity) => lane.shares[activity]);
    let bin = -1;
    let parts = [];
    for (let x = 0; x < width; x++) {
      const here = Math.floor((span.from + (x + 0.5) * msAPixel - bins.start) / bins.step);
      if (here < 0) continue;
      if (here >= bins.count) break;
      if (here !== bin) {
        bin = here;
        parts = this.parts(lane, shown, bin, top, height);
      }
      for (const { tile, low, high } of parts) this.column(x, low, high, tile);
    }
  }

  /** Returns where each activity of a bin is drawn: from `high` to above `low`. */
  parts(lane, shown, bin, top, height) {
    const found = [];
    let sum = 0;
    let low = top + height;
    for (const activity of shown) {
      const share = lane.shares[activity][bin];
      if (!share) continue;
      sum += share;
      const high = top + height - Math.round((height * Math.min(FULL, sum)) / FULL);
      if (high < low) found.push({ tile: this.tiles[activity], low, high });
      low = high;
    }
    return found;
  }

  column(x, low, high, { size, pixels }) {
    const column = x % size;
    for (let y = high, at = high * this.width + x; y < low; y++, at += this.width) {
      this.pixels[at] = pixels[(y % size) * size + column];
    }
  }
}
