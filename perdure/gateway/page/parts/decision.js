/** The card by which a person decides about a waiting call. */
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../api.js";
import { exact, moment, plain, span, title } from "../format.js";
import { html } from "../html.js";
import { Problem } from "../problem.js";
import { address, announcement, link, loadApprovals, me, now } from "../state.js";
import { Act, Folded } from "./basics.js";
import { Field, read, written } from "./form.js";

const INERT_MS = 800;
/** Drafts outlive a card that is drawn anew. @type {Map<string, any>} */
const drafts = new Map();
/** Why an answer was not used, by run and call: the run's events may remove a card before the gateway refuses its answer. */
const unused = signal(/** @type {Record<string, string>} */ ({}));

/** Of a call that does not wait any more, or of all calls of a run: that this page's answer was not used. @param {{runId: string, callId?: string}} props */
export function Unused({ runId, callId }) {
  const why = callId ? unused.value[`${runId} ${callId}`] : Object.entries(unused.value).find(([key]) => key.startsWith(`${runId} `))?.[1];
  return why ? html`<p class="problem" role="alert">Your answer was not used. ${plain(why)}</p>` : null;
}

/**
 * @param {{runId: string, request: any, words?: string, place?: any, onDone?: () => void}} props
 *   `request`: what waits, with `call_id`, `kind`, `name`, `schema`, `arguments`, `digest`, `since`, `deadline`.
 */
export function Decision({ runId, request, words = "", place = "", onDone }) {
  const key = `${runId} ${request.call_id} ${request.digest}`;
  const [draft, setDraft] = useState(() => drafts.get(key) ?? { fields: null, json: null, isDenying: false, reason: "", choice: null, other: "" });
  const [late, setLate] = useState("");
  const [isInert, setInert] = useState(true);
  const heading = useRef(/** @type {HTMLHeadingElement | null} */ (null));
  const change = (/** @type {any} */ part) => {
    const next = { ...draft, ...part };
    drafts.set(key, next);
    setDraft(next);
  };
  useEffect(() => {
    setInert(true);
    const timer = setTimeout(() => setInert(false), INERT_MS);
    return () => clearTimeout(timer);
  }, [request.digest]);
  useEffect(() => {
    if (address.peek().path[2] === "decide") heading.current?.focus();
  }, []);

  const run = `/runs/${encodeURIComponent(runId)}`;
  const send = async (/** @type {string} */ action, /** @type {any} */ body) => {
    try {
      await post(`${run}/${action}`, { callId: request.call_id, digest: request.digest, ...body });
    } catch (error) {
      if (error instanceof Problem && [404, 409].includes(error.status)) {
        setLate(error.message);
        unused.value = { ...unused.value, [`${runId} ${request.call_id}`]: error.message };
        return false;
      }
      throw error;
    }
    drafts.delete(key);
    announcement.value = "Your decision was sent.";
    await loadApprovals(true).catch(() => undefined);
    onDone?.();
    return true;
  };

  const wait = `${span(now.value - request.since)}, ${request.deadline ? `denied automatically in ${span(request.deadline - now.value)}` : "no deadline"}`;
  const head = html`<div class="card-head">
    <span aria-hidden="true">●</span> <strong>Waiting for a person</strong> <span>${wait}</span>
    <span class="end">${place}</span>
  </div>`;
  if (late)
    return html`<section class="card person">${head}
      <div class="card-body"><h2 ref=${heading} tabindex="-1">Your answer was not used</h2>
        <p class="problem" role="alert">${plain(late)}</p>
        <p>What you wrote is kept until this page is closed.</p>
        ${draft.reason && html`<${Folded} text=${draft.reason} />`}
        <a href=${link("run", runId)}>See what happened</a></div>
    </section>`;
  const body = request.kind === "question"
    ? Question({ request, draft, change, send, heading, isInert })
    : Approval({ request, words, draft, change, send, heading, isInert, runId });
  return html`<section class="card person" aria-label="A call waits for a decision">${head}${body}</section>`;
}

/** @param {any} props */
function Approval({ request, words, draft, change, send, heading, isInert, runId }) {
  const schema = request.schema ?? { properties: {} };
  const names = Object.keys({ ...(schema.properties ?? {}), ...request.arguments });
  const of = (/** @type {string} */ name) => schema.properties?.[name] ?? {};
  const original = Object.fromEntries(names.map((name) => [name, written(of(name), request.arguments[name])]));
  const fields = draft.fields ?? original;
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const wrong = /** @type {Record<string, string>} */ ({});
  /** Without a prototype, so that `__proto__` is a name like others. @type {Record<string, unknown>} */
  let values = Object.create(null);
  if (draft.json !== null) {
    try {
      values = exact(draft.json);
    } catch {
      wrong.json = "Not JSON.";
    }
  } else
    for (const name of names) {
      if (fields[name] === original[name]) {
        if (name in request.arguments) values[name] = request.arguments[name];
        continue;
      }
      const { value, wrong: text } = read(of(name), fields[name], required.has(name));
      if (text) wrong[name] = text;
      else if (value !== undefined) values[name] = value;
    }
  const changes = draft.json !== null
    ? Number(JSON.stringify(values) !== JSON.stringify(request.arguments))
    : names.filter((name) => fields[name] !== original[name]).length;
  const approve = () => send("approve", changes ? { arguments: values } : {});
  const isWrong = Object.keys(wrong).length > 0;
  return html`<div class="card-body">
      <h2 ref=${heading} tabindex="-1">${title(request.name)}?</h2>
      <p class="about">${plain(request.description ?? "")} <code>${plain(request.name)}</code></p>
      ${request.reason && html`<p>${plain(request.reason)}</p>`}
      <${Approvers} request=${request} />
      ${draft.json === null
        ? names.map((name) => html`<${Field} key=${name} name=${name} schema=${of(name)} text=${fields[name]} wrong=${wrong[name]}
            original=${original[name]} isRequired=${required.has(name)}
            onText=${(/** @type {string} */ text) => change({ fields: { ...fields, [name]: text } })} />`)
        : html`<label for="as-json">Arguments as JSON</label>
            <textarea id="as-json" class="mono" rows="8" value=${draft.json}
              onInput=${(/** @type {any} */ event) => change({ json: event.currentTarget.value })}></textarea>
            ${wrong.json && html`<span class="problem">${wrong.json}</span>`}`}
      <p><button class="quiet" onClick=${() => change(draft.json === null ? { json: JSON.stringify(values, null, 1) } : { json: null })}>
        ${draft.json === null ? "Edit as JSON" : "Back to the form"}</button></p>
      ${words && html`<div class="quoted"><span class="about">The agent's own words, unverified</span><blockquote>${plain(words)}</blockquote></div>`}
    </div>
    ${draft.isDenying
      ? html`<div class="denying">
          <label for="reason"><strong>Why not?</strong> The agent reads this and goes on without the call.</label>
          <textarea id="reason" rows="3" value=${draft.reason} onInput=${(/** @type {any} */ event) => change({ reason: event.currentTarget.value })}></textarea>
        </div>
        <div class="card-foot">
          <${Act} kind="danger" disabled=${isInert} act=${() => send("deny", draft.reason ? { reason: draft.reason } : {})}>Deny and tell the agent<//>
          <${Act} kind="danger" disabled=${isInert} act=${async () => {
            if (await send("deny", draft.reason ? { reason: draft.reason } : {}))
              await post(`/runs/${encodeURIComponent(runId)}/cancel`, { reason: draft.reason || "denied" });
          }}>Deny and stop the run<//>
          <button onClick=${() => change({ isDenying: false })}>Back</button>
        </div>`
      : html`<div class="card-foot">
          <button id="deny" class="danger" onClick=${() => change({ isDenying: true })}>Deny…</button>
          <${Act} id="approve" kind="primary" disabled=${isInert || isWrong || Boolean(whyNot(request))} act=${approve}>
            ${changes ? `Approve with ${changes} change${changes === 1 ? "" : "s"}` : "Approve"}<//>
          <span class="about">${changes ? "The tool runs with your value." : "Nothing happens until you decide."}${me.value?.isKnown ? ` You decide as ${plain(me.value.name)}.` : ""}</span>
        </div>`}`;
}

/** Who has approved so far. @param {any} request @returns {any[]} */
const votesOf = (request) => (request.votes ?? []).map((/** @type {any} */ each) => each.vote ?? each);

/** Why the reader may not decide; "" where nothing is known against it. The gateway decides in any case. @param {any} request */
function whyNot(request) {
  const who = me.value;
  const roles = request.approvers?.by ?? [];
  if (!who?.isKnown) return roles.length ? "You may not decide this: this gateway does not know who you are." : "";
  if (roles.length && !roles.some((/** @type {string} */ each) => who.roles.includes(each))) return `You may not decide this: it needs the role ${roles.map(plain).join(" or ")}.`;
  if (votesOf(request).some((each) => each.name === who.name)) return "You have approved this. Somebody else must, too.";
  return "";
}

/** @param {{request: any}} props */
function Approvers({ request }) {
  const { approvers } = request;
  const votes = votesOf(request);
  if (!approvers && !votes.length) return null;
  const needed = approvers?.count ?? 1;
  const given = votes.map((each) => `${plain(each.name)}${each.at ? `, ${moment(each.at)}` : ""}`).join("; ");
  const by = approvers?.by?.length ? `Needs the role ${approvers.by.map(plain).join(" or ")}. ` : "";
  const others = approvers?.notRequester ? "Whoever started or steered this run may not approve it. " : "";
  const why = whyNot(request);
  return html`<p class="about">${by}${others}${needed > 1 ? html`<strong>${votes.length} of ${needed} approvals${given ? ":" : "."}</strong> ${given}` : ""}</p>
    ${why && html`<p class="note held">${why}</p>`}`;
}

/** @param {any} props */
function Question({ request, draft, change, send, heading, isInert }) {
  const given = request.arguments ?? {};
  const question = request.question ?? given.question ?? "";
  const choices = request.choices ?? [];
  const allowsOther = request.allow_other ?? given.allow_other ?? true;
  const isOther = draft.choice === null && (draft.other || !choices.length);
  const text = draft.choice ?? draft.other;
  return html`<div class="card-body">
      <p class="about">The agent asks</p>
      <h2 ref=${heading} tabindex="-1">${plain(question)}</h2>
      <fieldset class="choices"><legend class="unseen">Answers</legend>
        ${choices.map((/** @type {string} */ each) => html`<label class="choice">
          <input type="radio" name="choice" checked=${draft.choice === each} onChange=${() => change({ choice: each })} /> ${plain(each)}</label>`)}
        ${allowsOther && html`<label class="choice">
          ${choices.length > 0 && html`<input type="radio" name="choice" checked=${isOther} onChange=${() => change({ choice: null })} />`}
          <span>${choices.length ? "Something else" : "Your answer"}</span>
          <textarea rows="2" aria-label="Your answer" value=${draft.other}
            onInput=${(/** @type {any} */ event) => change({ other: event.currentTarget.value, choice: null })}></textarea></label>`}
      </fieldset>
    </div>
    <div class="card-foot">
      <${Act} kind="danger" disabled=${isInert} act=${() => send("deny", { reason: "not answered" })}>Do not answer<//>
      <${Act} id="approve" kind="primary" disabled=${isInert || !text.trim()} act=${() => send("answer", { text })}>
        ${draft.choice ? `Answer: ${plain(draft.choice)}` : "Answer"}<//>
      <span class="about">Nothing happens until you decide.</span>
    </div>`;
}
