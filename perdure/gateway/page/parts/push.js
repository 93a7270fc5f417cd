/** Web Push: the browser's own service brings word of waiting calls, also where no tab is open. */
import { call, get, post } from "../api.js";

const isPossible = "serviceWorker" in navigator && "PushManager" in globalThis;
/** Whether the gateway pushes to this browser. */
export let isPushed = false;

/** Subscribe at the gateway, also again: it forgets subscriptions when it ends. Without a key there, nothing happens. */
export async function subscribe() {
  if (!isPossible) return;
  const { publicKey } = await get("/push");
  await navigator.serviceWorker.register("page/push_worker.js", { scope: "./" });
  const { pushManager } = await navigator.serviceWorker.ready;
  const options = { userVisibleOnly: true, applicationServerKey: publicKey };
  const made = await pushManager.subscribe(options).catch(async () => {
    await (await pushManager.getSubscription())?.unsubscribe(); // made for another key of the gateway
    return pushManager.subscribe(options);
  });
  const { endpoint, keys } = made.toJSON();
  await post("/push", { endpoint, keys });
  isPushed = true;
}

/** Forget the reader at the gateway and in the browser, before somebody else signs in. */
export async function unsubscribe() {
  isPushed = false;
  const registration = isPossible ? await navigator.serviceWorker.getRegistration("./") : undefined;
  const made = await registration?.pushManager.getSubscription();
  if (!made) return;
  await made.unsubscribe();
  await call("DELETE", "/push", { endpoint: made.endpoint });
}

if (isPossible) {
  navigator.serviceWorker.addEventListener("message", ({ data }) => {
    if (String(data?.page).startsWith("#/")) location.hash = data.page;
  });
}
