// How boxes are painted in a comparison: by change, with a sign before the name, and stripes where there is less.

import { changeColor, sidesOf, signOf, stripeColor } from '../model/change.js';

const STRIPE_PX = 7;
const LEAST_STRIPED_PX = 4;

export class ChangePaint {
  constructor(view, theme) {
    Object.assign(this, { view, theme });
    this.pattern = null;
  }

  color(box) {
    const { boxes, comparison } = this.view;
    return changeColor(this.theme, boxes.change[box], sidesOf(comparison, boxes.here_ns[box], boxes.there_ns[box]));
  }

  /** Draws stripes over a box with less than on the other side. */
  stripe(context, box, [left, top, width, height]) {
    if (this.view.boxes.change[box] >= 0 || width < LEAST_STRIPED_PX) return;
    this.pattern ??= context.createPattern(stripes(this.theme), 'repeat');
    context.fillStyle = this.pattern;
    context.fillRect(left, top, width, height);
  }

  label(box, name) {
    const sign = signOf(this.view.boxes.change[box]);
    return sign ? `${sign} ${name}` : name;
  }
}

function stripes(theme) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = STRIPE_PX;
  const context = tile.getContext('2d');
  context.strokeStyle = stripeColor(theme);
  context.lineWidth = 1.5;
  context.beginPath();
  for (const shift of [-STRIPE_PX, 0, STRIPE_PX]) {
    context.moveTo(shift, STRIPE_PX);
    context.lineTo(shift + STRIPE_PX, 0);
  }
  context.stroke();
  return tile;
}
