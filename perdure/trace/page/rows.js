// One row for each span, of which only those in view are drawn: a trace of 30,000 spans scrolls like one of 30.

const ROW = 28;
const AHEAD = 8;

class Rows {
  constructor(place, onSelect) {
    this.onSelect = onSelect;
    this.onWindow = () => {};
    this.closed = new Set();
    this.range = null;
    this.wanted = "";
    this.selected = null;
    this.spacer = el("div", "spacer");
    this.box = el("div", "rows", { tabIndex: 0, role: "treegrid", "aria-label": "Spans in the order of the tree" }, this.spacer);
    this.none = el("p", "empty", { hidden: true });
    place.append(this.box, this.none);
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    this.box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw(true)).observe(this.box);
    this.refresh();
  }

  /** Choose the rows anew: after a search, another range, or a subtree that was opened or closed. */
  refresh() {
    const hidden = new Set();
    this.shown = [];
    trace.spans.forEach((span, place) => {
      if (span.parent !== undefined && hidden.has(span.parent)) return hidden.add(place);
      if (this.closed.has(place) && !this.wanted) hidden.add(place);
      if (this.range && (span.end < this.range[0] || span.start > this.range[1])) return undefined;
      if (this.wanted && !searchable(span).includes(this.wanted)) return undefined;
      return this.shown.push(place);
    });
    this.box.setAttribute("aria-rowcount", String(this.shown.length));
    this.spacer.style.height = `${this.shown.length * ROW}px`;
    this.box.hidden = !this.shown.length;
    this.none.hidden = Boolean(this.shown.length);
    this.none.textContent = trace.spans.length ? "No span here fits." : "There are no spans in this trace.";
    this.draw(true);
  }

  draw(anew = false) {
    const top = Math.floor(this.box.scrollTop / ROW);
    const bottom = Math.min(this.shown.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / ROW));
    if (!anew && this.drawn === `${top} ${bottom}`) return;
    this.drawn = `${top} ${bottom}`;
    const window = this.range ?? windowOf(this.shown.slice(top, bottom));
    const axis = new Axis(trace.segments, ...window, this.trackWidth());
    const first = Math.max(0, top - AHEAD);
    const rows = this.shown.slice(first, bottom + AHEAD).map((place, offset) => this.row(place, first + offset, axis));
    this.spacer.replaceChildren(...rows);
    this.onWindow(window);
  }

  trackWidth() {
    const probe = el("div", "row", { hidden: false }, el("div"), el("div", "track"), el("div"), el("div", "tokens"));
    this.spacer.append(probe);
    const width = probe.children[1].clientWidth;
    probe.remove();
    return width || 300;
  }

  row(place, index, axis) {
    const span = trace.spans[place];
    const made = el("div", "row", { role: "row", "aria-rowindex": String(index + 1), "aria-level": String(span.depth + 1) });
    made.setAttribute("aria-selected", String(place === this.selected));
    made.dataset.span = span.id;
    made.style.top = `${index * ROW}px`;
    made.append(this.name(span, place), track(span, axis), figure(tokensOf(span), "tokens dim"), figure(timeOf(span)));
    made.addEventListener("click", () => this.select(place));
    return made;
  }

  name(span, place) {
    const box = el("div", "name", { role: "gridcell" });
    box.style.paddingLeft = `${Math.min(span.depth, 12) * 14}px`;
    box.append(this.turn(place), glyph(span), nameOf(span));
    box.title = span.name;
    return box;
  }

  turn(place) {
    if (trace.spans[place + 1]?.parent !== place) return el("span", "turn");
    const closed = this.closed.has(place);
    const button = el("button", "turn", { type: "button", tabIndex: -1, textContent: closed ? "▸" : "▾" });
    button.setAttribute("aria-label", closed ? "Open" : "Close");
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      this.turnOver(place, !closed);
    });
    return button;
  }

  turnOver(place, close) {
    this.closed[close ? "add" : "delete"](place);
    this.refresh();
  }

  select(place) {
    this.selected = place;
    this.draw(true);
    this.onSelect(trace.spans[place]);
  }

  /** Select a span and bring it into view; what keeps it from being shown is undone. */
  show(place) {
    for (let above = trace.spans[place].parent; above !== undefined; above = trace.spans[above].parent) this.closed.delete(above);
    this.refresh();
    const index = this.shown.indexOf(place);
    const [top, height] = [index * ROW, this.box.clientHeight];
    if (index >= 0 && (top < this.box.scrollTop || top + ROW > this.box.scrollTop + height)) this.box.scrollTop = top - height / 2;
    this.select(place);
  }

  key(event) {
    const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps && this.shown.length) {
      const next = Math.max(0, Math.min(this.shown.length - 1, this.shown.indexOf(this.selected) + steps[event.key]));
      this.show(this.shown[next]);
      event.preventDefault();
    } else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && this.selected !== null) {
      this.turnOver(this.selected, event.key === "ArrowLeft");
      event.preventDefault();
    }
  }
}

/** The times of the rows in view: these are told apart, however long the whole is. */
function windowOf(places) {
  const spans = places.map((place) => trace.spans[place]);
  const inner = spans.filter((span) => span.kind !== "agent");
  const told = inner.length ? inner : spans;
  const from = told.reduce((least, span) => Math.min(least, span.start), trace.length);
  const to = told.reduce((most, span) => Math.max(most, span.end), 0);
  return to > from && places.length < trace.spans.length ? [from, to] : [0, trace.length];
}

function track(span, axis) {
  const box = el("div", "track", { role: "gridcell" });
  for (const fold of axis.folds) {
    const band = el("div", "fold");
    band.style.left = `${fold.x}px`;
    band.style.width = `${fold.width}px`;
    box.append(band);
  }
  const state = span.problem ? "failed" : span.open && span.kind !== "wait" && span.kind !== "retry" ? "open" : "";
  const piece = el("div", `piece ${span.kind} ${state}`);
  if (span.end < axis.from || span.start > axis.to) return box;
  const x = Math.min(axis.x(span.start), axis.width - 3);
  piece.style.left = `${x}px`;
  piece.style.width = `${axis.x(span.end) - x}px`;
  box.append(piece);
  return box;
}

function figure(value, classes = "") {
  return el("div", `number ${classes}`, { role: "gridcell" }, value);
}

function stateOf(span) {
  if (span.problem) return ["✗", "failed", "failed"];
  if (span.kind === "wait") return ["‖", "wait", span.open ? "waits for a person" : "waited for a person"];
  if (span.kind === "retry") return ["↻", "retry", "waited for the next try"];
  if (span.open) return ["●", "working", "not ended when this was read"];
  return ["✓", "done", "done"];
}

function glyph(span) {
  const [sign, state, said] = stateOf(span);
  return el("span", `glyph ${state}`, { title: said, role: "img", "aria-label": said }, sign);
}

/** What is done, then with what: `chat` is ours, the model's name is not. */
function nameOf(span) {
  const [verb, ...rest] = span.name.split(" ");
  const box = el("span", "text", {}, el("b", "", {}, `${verb} `));
  if (rest.length) box.append(el("span", "mono", {}, rest.join(" ")));
  return box;
}

function tokensOf(span) {
  return span.tokens ? `${span.tokens[0].toLocaleString("en")} → ${span.tokens[1].toLocaleString("en")}` : "";
}

function timeOf(span) {
  return took(span.end - span.start);
}

function iterationOf(span) {
  return span.attributes?.["perdure.iteration"];
}

const searched = new WeakMap();

function searchable(span) {
  if (!searched.has(span)) {
    const { name, id, problem, attributes, events, system, news, said, arguments: given, result } = span;
    searched.set(span, JSON.stringify([name, id, problem, attributes, events, system, news, said, given, result]).toLowerCase());
  }
  return searched.get(span);
}
