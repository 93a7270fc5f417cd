// Where a moment lies between 0 and 1 of a width, with long pauses folded.

const FOLD_PIXELS = 48;

class Axis {
  /** Of the trace's segments, what lies between two moments, over a width in pixels. */
  constructor(segments, from, to, width) {
    const parts = [];
    for (const [start, end, folded] of segments) {
      const [since, until] = [Math.max(start, from), Math.min(end, to)];
      if (until > since) parts.push({ since, until, folded: Boolean(folded) });
    }
    const folds = parts.filter((part) => part.folded).length;
    const active = parts.reduce((sum, part) => sum + (part.folded ? 0 : part.until - part.since), 0);
    const foldWidth = folds ? Math.min(FOLD_PIXELS, (active ? width / 2 : width) / folds) : 0;
    const room = width - folds * foldWidth;
    let at = 0;
    for (const part of parts) {
      part.x = at;
      part.width = part.folded ? foldWidth : (room * (part.until - part.since)) / (active || 1);
      at += part.width;
    }
    this.parts = parts;
    this.width = width;
    this.from = from;
    this.to = to;
  }

  /** The pixel of a moment. */
  x(moment) {
    if (moment <= this.from) return 0;
    let low = 0;
    let high = this.parts.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.parts[middle].until >= moment) high = middle;
      else low = middle + 1;
    }
    const part = this.parts[low];
    if (!part || moment >= this.to) return this.width;
    return part.x + (part.width * (moment - part.since)) / (part.until - part.since);
  }

  /** The moment at a pixel. */
  moment(x) {
    const part = this.parts.find((each) => x <= each.x + each.width) ?? this.parts.at(-1);
    if (!part) return this.from;
    const share = part.width ? (x - part.x) / part.width : 0;
    return part.since + Math.min(1, Math.max(0, share)) * (part.until - part.since);
  }

  get folds() {
    return this.parts.filter((part) => part.folded);
  }
}
