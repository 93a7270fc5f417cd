// Everything that the trace has about one span.

function inspect(place, span) {
  const index = trace.spans.indexOf(span);
  place.replaceChildren(el("h2", "", {}, glyph(span), el("span", "", {}, span.name)));
  if (span.problem) place.append(el("p", "problem", {}, span.problem));
  place.append(facts(timesOf(span)));
  if (span.open) place.append(el("p", "dim", {}, "It had not ended when this was read: its end is not known."));
  section(place, "Arguments", span.arguments);
  section(place, "Result", span.result);
  section(place, "Instructions", span.system && plainParts(span.system));
  for (const message of span.news ?? []) section(place, `New in this call: ${message.role ?? "message"}`, plainParts(message.parts));
  for (const message of span.said ?? []) section(place, "Answer", plainParts(message.parts));
  const told = Object.entries(span.attributes ?? {});
  if (told.length) place.append(el("h3", "", {}, "Attributes"), facts(told.map(([name, value]) => [name, asText(value)])));
  if (span.events?.length) place.append(el("h3", "", {}, "Events"));
  for (const event of span.events ?? []) {
    place.append(el("div", "well", {}, el("b", "", {}, event.name), el("span", "dim", {}, `  ${clock(event.at)}, +${took(event.at - span.start)}`)));
    place.lastChild.append(facts(Object.entries(event.attributes ?? {}).map(([name, value]) => [name, asText(value)])));
  }
  if (!trace.hasContent && (span.kind === "model" || span.kind === "tool")) place.append(el("p", "dim", {}, withoutContent()));
  place.append(el("p", "dim mono", {}, `span ${span.id}`));
  place.scrollTop = 0;
  return index;
}

function timesOf(span) {
  const times = [["began", `${clock(span.start, true)} (+${took(span.start)})`], ["took", `${timeOf(span)}${span.open ? " so far" : ""}`]];
  if (span.tokens) times.push(["tokens", `${span.tokens[0].toLocaleString("en")} in, ${span.tokens[1].toLocaleString("en")} out`]);
  if (span.cost) times.push(["cost", dollars(span.cost)]);
  return times;
}

function facts(pairs) {
  return el("dl", "", {}, pairs.flatMap(([name, value]) => [el("dt", "", {}, name), el("dd", "", {}, value.length > 200 ? long(value) : value)]));
}

function section(place, title, value) {
  if (value === undefined || value === null || value === "") return;
  place.append(el("h3", "", {}, title), el("div", "well", {}, long(asText(value))));
}

/** The parts of a message as one text, with what is no text said in words. */
function plainParts(parts) {
  return (Array.isArray(parts) ? parts : [parts]).map(plainPart).filter(Boolean).join("\n");
}

function plainPart(part) {
  if (typeof part === "string") return part;
  if (typeof part?.content === "string" && (part.type === "text" || part.type === "reasoning")) {
    return part.type === "reasoning" ? `(thinking) ${part.content}` : part.content;
  }
  if (part?.type === "tool_call") return `→ ${part.name}(${oneLine(part.arguments ?? {}, 2000)})`;
  if (part?.type === "tool_call_response") return asText(part.response ?? part.result ?? "");
  return asText(part ?? "");
}

function dollars(amount) {
  return `$${amount.toFixed(amount < 0.1 ? 4 : 2)}`;
}

function withoutContent() {
  return "What was said is not in this file. perdure trace ID --html FILE --content puts it in.";
}
