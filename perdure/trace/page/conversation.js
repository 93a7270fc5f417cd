// The run read downwards: what was said, which tools were called, who was waited for. Drawn when it is first shown.

const OPEN_ITERATIONS = 12;

class Talk {
  constructor(place, onSelect) {
    this.place = place;
    this.onSelect = onSelect;
    this.below = trace.spans.map(() => []);
    trace.spans.forEach((span, index) => span.parent !== undefined && this.below[span.parent].push(index));
    this.isDrawn = false;
  }

  draw() {
    if (this.isDrawn) return;
    this.isDrawn = true;
    if (!trace.hasContent) this.place.append(el("p", "empty", {}, withoutContent()));
    trace.spans.forEach((span, index) => span.parent === undefined && this.agent(this.place, index));
  }

  /** Everything under one span, in iterations. */
  agent(place, index) {
    const parts = this.iterations(index);
    const fold = parts.length > OPEN_ITERATIONS ? parts.map((part, at) => at > 0 && at < parts.length - 5 && !this.hasFailed(part)) : [];
    let folded = null;
    parts.forEach((part, at) => {
      if (!fold[at]) folded = null;
      else if (folded) return folded.push(part);
      else return this.foldedPart(place, (folded = [part]));
      return this.iteration(place, part);
    });
  }

  /** The children of a span, cut before each model call. */
  iterations(index) {
    const parts = [[]];
    for (const child of this.below[index]) {
      if (trace.spans[child].kind === "model" && parts.at(-1).some((each) => trace.spans[each].kind === "model")) parts.push([]);
      parts.at(-1).push(child);
    }
    return parts.filter((part) => part.length);
  }

  hasFailed(part) {
    return part.some((index) => trace.spans[index].problem);
  }

  foldedPart(place, parts) {
    const button = el("button", "", { type: "button" });
    const box = el("div", "folded-part", {}, button);
    queueMicrotask(() => (button.textContent = `Show ${counted(parts.length, "more iteration")}`));
    button.addEventListener("click", () => {
      box.replaceChildren();
      parts.forEach((part) => this.iteration(box, part));
    });
    place.append(box);
  }

  iteration(place, part) {
    for (const index of part) {
      const span = trace.spans[index];
      if (span.kind === "model") this.model(place, span, index);
      else this.call(place, span, index);
    }
  }

  model(place, span, index) {
    this.said(place, "Instructions", plainParts(span.system ?? []), true);
    for (const message of span.news ?? []) this.said(place, roleOf(message), plainParts(message.parts), true);
    const number = iterationOf(span) ?? trace.spans.slice(0, index + 1).filter((each) => each.kind === "model" && each.parent === span.parent).length;
    const figures = [span.name.split(" ").slice(1).join(" "), timeOf(span), span.tokens ? `${tokensOf(span)} tokens` : "", span.cost ? dollars(span.cost) : "", again(span)];
    const head = el("h2", "iteration", {}, el("span", "count", {}, String(number)), el("span", "figures", {}, figures.filter(Boolean).join("   ")));
    head.append(this.link(index));
    place.append(head);
    if (span.problem) place.append(el("p", "problem", {}, span.problem));
    for (const message of span.said ?? []) {
      const spoken = (message.parts ?? []).filter((part) => part?.type !== "tool_call");
      this.said(place, "", plainParts(spoken), false);
    }
  }

  said(place, role, words, isQuoted) {
    if (!words) return;
    if (role) place.append(el("div", "role", {}, role));
    place.append(el("div", isQuoted ? "said quoted" : "said", {}, long(words)));
  }

  call(place, span, index) {
    const given = span.arguments === undefined ? "" : oneLine(span.arguments);
    const name = el("span", "text mono", {}, el("b", "", {}, span.kind === "tool" ? span.name.split(" ").slice(1).join(" ") : span.name), given && `  ${given}`);
    const summary = el("summary", "", {}, glyph(span), name, el("span", "time", {}, [decided(span), again(span), timeOf(span)].filter(Boolean).join("   ")));
    if (span.result !== undefined) summary.append(el("span", "result mono", {}, oneLine(span.result)));
    const box = el("details", `call ${span.kind}`, {}, summary);
    box.addEventListener("toggle", () => box.open && !box.querySelector(".inside") && box.append(this.inside(span, index)));
    place.append(box);
    box.open = Boolean(span.problem) || (this.below[index].length > 0 && span.depth < 2 && this.below[index].length < 40);
  }

  inside(span, index) {
    const box = el("div", "inside");
    if (span.problem && span.result === undefined) box.append(el("p", "problem", {}, span.problem));
    section(box, "Arguments", span.arguments);
    section(box, "Result", span.result);
    for (const child of this.below[index]) {
      if (trace.spans[child].kind === "agent") this.agent(box, child);
      else this.call(box, trace.spans[child], child);
    }
    box.append(this.link(index));
    return box;
  }

  link(index) {
    const button = el("button", "plain", { type: "button", textContent: "details" });
    button.addEventListener("click", () => this.onSelect(index));
    return button;
  }
}

function roleOf(message) {
  return { user: "User", system: "Instructions", developer: "Instructions", assistant: "Assistant", tool: "Tool" }[message.role] ?? String(message.role ?? "Message");
}

/** What a person has decided about a call that waited. */
function decided(span) {
  const { "perdure.wait.approved": approved, "perdure.wait.by": by, "perdure.wait.vouched": vouched } = span.attributes ?? {};
  if (approved === undefined) return "";
  return `${approved ? "approved" : "denied"}${by ? ` by ${by}${vouched ? "" : " (claimed)"}` : ""}`;
}

/** Of what was tried before: how often. */
function again(span) {
  const told = span.attributes ?? {};
  const [tries, attempts] = [told["perdure.try"] ?? told["perdure.tool.execution"], told["perdure.attempt"]];
  return [tries ? `try ${tries}` : "", attempts ? `attempt ${attempts}` : ""].filter(Boolean).join(", ");
}
