/** Signing in: with a token, or at an OpenID Connect issuer (authorization code with PKCE). */
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { get, post, setToken, token } from "../api.js";
import { html } from "../html.js";

/** @typedef {{ state: string, verifier: string, hash: string }} Begun the sign-in that this tab has begun */

const BEGUN = "perdure-sign-in";
const failure = signal("");
const here = () => location.origin + location.pathname;

/** @param {Uint8Array} bytes */
function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

/** Send the person to the issuer. @param {any} openId as `/perdure/sign-in` describes it */
async function begin(openId) {
  const begun = { state: random(), verifier: random(), hash: location.hash };
  sessionStorage.setItem(BEGUN, JSON.stringify(begun));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(begun.verifier));
  const target = new URL(openId.authorizationEndpoint);
  const asked = {
    response_type: "code",
    client_id: openId.clientId,
    redirect_uri: here(),
    scope: openId.scope,
    state: begun.state,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(asked)) target.searchParams.set(name, value);
  location.assign(target);
}

/** Take the issuer's answer out of the address, and exchange its code for a token. */
export async function finishSignIn() {
  const answer = new URLSearchParams(location.search);
  const begun = /** @type {Begun | null} */ (JSON.parse(sessionStorage.getItem(BEGUN) ?? "null"));
  if (!answer.has("state")) return;
  sessionStorage.removeItem(BEGUN);
  history.replaceState(null, "", here() + (begun?.hash ?? ""));
  if (begun === null || answer.get("state") !== begun.state) {
    failure.value = "This sign-in was not begun in this tab. Sign in again.";
    return;
  }
  if (answer.has("error")) {
    failure.value = `Not signed in: ${answer.get("error_description") ?? answer.get("error")}`;
    return;
  }
  try {
    const body = { code: answer.get("code"), codeVerifier: begun.verifier, redirectUri: here() };
    setToken((await post("/sign-in", body)).token);
  } catch (problem) {
    failure.value = /** @type {Error} */ (problem).message;
  }
}

/** The name of an issuer for people. @param {string} issuer */
const nameOf = (issuer) => new URL(issuer).host;

export function SignIn() {
  const [text, setText] = useState("");
  const [openId, setOpenId] = useState(/** @type {any} */ (null));
  useEffect(() => void get("/sign-in").then((known) => setOpenId(known.openId), () => {}), []);
  return html`<main class="narrow"><h1>This gateway needs to know who you are</h1>
    ${failure.value && html`<p class="note failed" role="alert">${failure.value}</p>`}
    ${!failure.value && token.value && html`<p class="note failed" role="alert">The gateway does not accept this token: it is wrong, or no longer valid.</p>`}
    ${openId && html`<p><button class="primary" onClick=${() => begin(openId)}>Sign in at ${nameOf(openId.issuer)}</button></p>`}
    <form onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); failure.value = ""; setToken(text); setText(""); }}>
      <label for="token">Bearer token</label>
      <input id="token" type="password" autocomplete="off" value=${text} onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)} />
      <p class="about">It is kept for this tab alone, until you sign out or close the tab.</p>
      <button class=${openId ? "" : "primary"} disabled=${!text.trim()}>Sign in</button></form></main>`;
}
