// The whole trace in one strip: model calls above, tools and waits below, what sub-agents do under them.

const LANES = { model: 0, tools: 1, deeper: 4 };
const LANE_HEIGHT = 13;
const STRIP_TOP = 12;

class Strip {
  constructor(place, onRange, onPick) {
    this.canvas = el("canvas", "", { role: "img", "aria-label": sentence() });
    place.append(this.canvas);
    this.lanes = lanesOf(trace.spans);
    this.onRange = onRange;
    this.onPick = onPick;
    this.range = null;
    this.window = null;
    this.drag = null;
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.canvas.addEventListener("pointerdown", (event) => this.begin(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.end(event));
  }

  begin(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = [event.offsetX - 12, event.offsetX - 12];
  }

  move(event) {
    if (!this.drag) {
      this.canvas.title = this.spanAt(event)?.name ?? "";
      return;
    }
    this.drag[1] = event.offsetX - 12;
    this.mark();
  }

  end(event) {
    if (!this.drag) return;
    const [from, to] = this.drag.map((x) => this.axis.moment(x)).sort((one, other) => one - other);
    const isDrag = Math.abs(this.drag[0] - this.drag[1]) > 5;
    this.drag = null;
    if (isDrag && to > from) this.onRange([from, to]);
    else if (this.spanAt(event)) this.onPick(this.spanAt(event));
    this.mark();
  }

  spanAt(event) {
    const [x, lane] = [event.offsetX - 12, Math.floor((event.offsetY - STRIP_TOP) / LANE_HEIGHT)];
    return trace.spans.findLast((span, place) => {
      if (this.lanes[place] !== lane) return false;
      const from = this.axis.x(span.start);
      return x >= from - 2 && x <= Math.max(this.axis.x(span.end), from + 3) + 2;
    });
  }

  /** Draw everything: at first, and in another size or theme. */
  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width) return;
    this.ratio = devicePixelRatio || 1;
    const size = { width: width * this.ratio, height: height * this.ratio };
    Object.assign(this.canvas, size);
    this.all = Object.assign(document.createElement("canvas"), size);
    const pen = this.pen(this.all);
    this.axis = new Axis(trace.segments, 0, trace.length, width - 24);
    this.least = trace.spans.length > width / 8 ? 1 : 3;
    const colours = (this.colours = coloursOf(this.canvas));
    this.drawFolds(pen, colours, height);
    this.drawTicks(pen, colours, height);
    trace.spans.forEach((span, place) => this.drawSpan(pen, colours, span, this.lanes[place]));
    this.mark();
  }

  /** Draw what is chosen, or in view, over what does not change. */
  mark() {
    if (!this.all) return;
    const pen = this.canvas.getContext("2d");
    pen.resetTransform();
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.all, 0, 0);
    this.drawRange(this.pen(this.canvas), this.colours, this.canvas.clientHeight);
  }

  /** A pen whose units are those of the page, from the left edge of the axis on. */
  pen(canvas) {
    const pen = canvas.getContext("2d");
    pen.setTransform(this.ratio, 0, 0, this.ratio, 12 * this.ratio, 0);
    return pen;
  }

  drawSpan(pen, colours, span, lane) {
    if (lane < 0) return;
    const x = this.axis.x(span.start);
    const width = Math.max(this.least, this.axis.x(span.end) - x);
    const [y, height] = [STRIP_TOP + lane * LANE_HEIGHT, lane >= LANES.deeper ? 6 : 9];
    if (span.kind === "wait" || span.kind === "retry") hatch(pen, colours[span.kind], x, y, width, height);
    else {
      pen.fillStyle = span.problem ? colours.failed : span.open ? colours.working : span.kind === "model" ? colours.model : colours.tool;
      pen.fillRect(x, y, width, height);
    }
    if (span.problem) cross(pen, colours.failed, x + width, y + height / 2);
  }

  drawFolds(pen, colours, height) {
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    for (const fold of this.axis.folds) {
      pen.fillStyle = colours.well;
      pen.fillRect(fold.x, 0, fold.width, height);
      zigzag(pen, colours.edge, fold.x, height - 18);
      zigzag(pen, colours.edge, fold.x + fold.width, height - 18);
      pen.fillStyle = colours.ink2;
      if (fold.width >= 40) pen.fillText(took(fold.until - fold.since), fold.x + fold.width / 2, height - 6);
    }
  }

  drawTicks(pen, colours, height) {
    pen.textAlign = "left";
    let free = 0;
    let count = 0;
    for (const span of trace.spans) {
      if (span.kind !== "model" || span.depth !== 1) continue;
      count += 1;
      const x = this.axis.x(span.start);
      if (x < free) continue;
      const label = `${iterationOf(span) ?? count}  ${clock(span.start)}`;
      const width = pen.measureText(label).width;
      if (this.axis.folds.some((fold) => x + width > fold.x && x < fold.x + fold.width)) continue;
      if (x + width > this.axis.width) continue;
      pen.fillStyle = colours.hair;
      pen.fillRect(x, 0, 1, height);
      pen.fillStyle = colours.ink3;
      pen.fillText(label, x + 4, height - 6);
      free = x + width + 24;
    }
  }

  drawRange(pen, colours, height) {
    const chosen = this.drag ?? this.range?.map((moment) => this.axis.x(moment));
    const range = chosen ?? this.window?.map((moment) => this.axis.x(moment));
    if (!range) return;
    const [from, to] = [Math.min(...range), Math.max(...range)];
    if (!chosen && to - from > this.axis.width - 1) return;
    pen.fillStyle = chosen ? colours.working : colours.ink2;
    pen.globalAlpha = 0.14;
    pen.fillRect(from, 0, to - from, height);
    pen.globalAlpha = 1;
    pen.fillRect(from, 0, 1, height);
    pen.fillRect(to, 0, 1, height);
  }
}

/** The lane of each span, -1 for those that only stand for others. */
function lanesOf(spans) {
  const ends = new Map();
  const free = (lanes, span) => {
    const lane = lanes.find((each) => (ends.get(each) ?? -1) <= span.start) ?? lanes.at(-1);
    ends.set(lane, Math.max(ends.get(lane) ?? 0, span.end));
    return lane;
  };
  return spans.map((span) => {
    if (span.kind === "agent" && span.depth !== 1) return -1;
    if (span.depth > 1 && span.kind !== "wait" && span.kind !== "retry") return free([LANES.deeper, LANES.deeper + 1], span);
    if (span.kind === "model") return LANES.model;
    return free([LANES.tools, LANES.tools + 1, LANES.tools + 2], span);
  });
}

function sentence() {
  const count = (kind) => trace.spans.filter((span) => span.kind === kind).length;
  const parts = [counted(count("model"), "model call"), counted(count("tool"), "tool call"), counted(count("wait"), "wait")];
  return `${parts.join(", ")} in ${took(trace.length)}, of which work was done for ${took(trace.active)}`;
}

function coloursOf(element) {
  const style = getComputedStyle(element);
  const probe = (name) => {
    // Canvas takes no light-dark(): the browser computes the colour of a property.
    element.style.color = `var(--${name})`;
    return getComputedStyle(element).color;
  };
  const names = { well: "well", hair: "hair", edge: "edge", ink2: "ink2", ink3: "ink3", model: "ink3", tool: "bar", working: "working", failed: "failed", wait: "person", retry: "held" };
  const found = Object.fromEntries(Object.entries(names).map(([use, name]) => [use, probe(name)]));
  element.style.color = "";
  return style && found;
}

function hatch(pen, colour, x, y, width, height) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  pen.strokeStyle = colour;
  pen.lineWidth = 1.4;
  for (let at = x - height; at < x + width + height; at += 5) {
    pen.beginPath();
    pen.moveTo(at, y + height);
    pen.lineTo(at + height, y);
    pen.stroke();
  }
  pen.restore();
}

function cross(pen, colour, x, y) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.6;
  pen.beginPath();
  pen.moveTo(x - 4, y - 5);
  pen.lineTo(x + 4, y + 5);
  pen.moveTo(x + 4, y - 5);
  pen.lineTo(x - 4, y + 5);
  pen.stroke();
}

function zigzag(pen, colour, x, height) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let y = 0, side = 0; y <= height; y += 6, side = 1 - side) pen.lineTo(x + (side ? 2 : -2), y);
  pen.stroke();
}
