/** Shows what the gateway pushes, and opens the decision. It answers no requests of the page. */
const worker = /** @type {any} */ (self);

/** Hidden characters, such as those that turn the direction of text, are shown as a sign. @param {unknown} text */
const shown = (text) => String(text ?? "").replace(/[\p{Cc}\p{Cf}]/gu, "\uFFFD").slice(0, 200);

worker.addEventListener("push", (/** @type {any} */ event) => {
  const { run, call, tool } = event.data.json();
  const page = `#/run/${encodeURIComponent(run)}/decide/${encodeURIComponent(call)}`;
  event.waitUntil(worker.registration.showNotification(`A call waits: ${shown(tool)}`, { body: shown(run), tag: `${run} ${call}`, icon: "icon.svg", data: { page } }));
});

worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data.page));
});

/** In a tab of the page if there is one, else in a new one. @param {string} page */
async function open(page) {
  const [tab] = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  if (!tab) return worker.clients.openWindow(new URL(page, worker.registration.scope));
  tab.postMessage({ page });
  return tab.focus();
}
