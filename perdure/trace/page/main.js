// Puts the page together.

const trace = JSON.parse(document.getElementById("trace").textContent);

function start() {
  const place = (id) => document.getElementById(id);
  head(place("head"));
  const rows = new Rows(place("timeline"), (span) => inspect(place("inspector"), span));
  const talk = new Talk(place("conversation"), (index) => rows.show(index));
  const tools = bar(place("bar"), rows, talk);
  const strip = new Strip(place("overview"), setRange, (span) => rows.show(trace.spans.indexOf(span)));
  function setRange(range) {
    strip.range = rows.range = range;
    tools.whole.hidden = !range;
    strip.mark();
    rows.refresh();
    tools.count();
  }
  rows.onWindow = (window) => {
    strip.window = window;
    strip.mark();
  };
  tools.whole.addEventListener("click", () => setRange(null));
  if (trace.spans.length) rows.select(0);
  else inspectNothing(place("inspector"));
  keys(rows, tools, () => setRange(null));
}

function head(place) {
  const roots = trace.spans.filter((span) => span.parent === undefined);
  const [root] = roots;
  document.title = `${trace.title} · perdure trace`;
  place.append(el("h1", "", {}, trace.title));
  if (!root) return;
  const [sign, state, said] = root.open ? waitingOr(root) : stateOf(root);
  const models = trace.spans.filter((span) => span.kind === "model");
  const sum = (side) => models.reduce((all, span) => all + (span.tokens?.[side] ?? 0), 0);
  const cost = roots.every((each) => each.cost) ? roots.reduce((all, each) => all + each.cost, 0) : models.reduce((all, span) => all + (span.cost ?? 0), 0);
  const fact = (...parts) => el("span", "", {}, ...parts);
  const bold = (value) => el("b", "", {}, value);
  place.append(
    el("div", "facts", {},
      el("span", `badge ${state}`, {}, `${sign} ${said}`),
      fact(bold(root.name.split(" ").slice(1).join(" "))),
      fact(`started ${clock(0, true)}`),
      fact("at work ", bold(took(trace.active)), ` of ${took(trace.length)}`),
      fact(bold(sum(0).toLocaleString("en")), " tokens in, ", bold(sum(1).toLocaleString("en")), " out"),
      cost ? fact(bold(dollars(cost))) : null,
      fact(counted(models.length, "model call"), ", ", counted(trace.spans.filter((span) => span.kind === "tool").length, "tool call")),
      el("span", "mono dim", {}, `trace ${trace.traceId}`),
    ),
  );
  if (root.problem) place.append(el("p", "sentence", {}, root.problem));
  if (root.open) place.append(el("p", "dim", {}, `Not ended when this was read, ${new Date(trace.made).toLocaleString()}.`));
}

/** What an open run is about: a person who is awaited, a failed call that waits, or work. */
function waitingOr(root) {
  const open = trace.spans.filter((span) => span.open && span !== root);
  const found = open.find((span) => span.kind === "wait") ?? open.find((span) => span.kind === "retry");
  return found ? stateOf(found) : ["●", "working", "working"];
}

function bar(place, rows, talk) {
  const count = el("span", "dim", { "aria-live": "polite" });
  const whole = el("button", "", { type: "button", hidden: true, textContent: "Whole run" });
  const find = el("input", "", { type: "search", placeholder: "Find in names and texts", "aria-label": "Find" });
  const tabs = ["timeline", "conversation"].map((name) => {
    const tab = el("button", "", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": name });
    tab.textContent = name === "timeline" ? "Timeline" : "Conversation";
    tab.addEventListener("click", () => open(name));
    return tab;
  });
  function open(name) {
    for (const tab of tabs) {
      const isOpen = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(isOpen));
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !isOpen;
    }
    if (name === "conversation") talk.draw();
    else rows.refresh();
  }
  function tell() {
    const all = counted(trace.spans.length, "span");
    count.textContent = rows.shown.length === trace.spans.length ? all : `${rows.shown.length.toLocaleString("en")} of ${all}`;
  }
  find.addEventListener("input", () => {
    rows.wanted = find.value.toLowerCase();
    open("timeline");
    tell();
  });
  place.append(el("div", "", { role: "tablist", "aria-label": "Views" }, tabs[0], " \u00a0 ", tabs[1]), el("span", "grow"), whole, count, find);
  open("timeline");
  tell();
  return { whole, find, count: tell };
}

function keys(rows, tools, reset) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target instanceof HTMLInputElement;
    if (event.key === "Escape" && isTyping) {
      tools.find.value = "";
      tools.find.dispatchEvent(new Event("input"));
      rows.box.focus();
    } else if (event.key === "Escape") reset();
    else if (!isTyping && (event.key === "f" || event.key === "/")) {
      tools.find.focus();
      event.preventDefault();
    } else if (!isTyping && (event.key === "j" || event.key === "k") && event.target !== rows.box) rows.key(event);
  });
}

function inspectNothing(place) {
  place.append(el("p", "dim", {}, "There is no span to look at."));
}

start();
