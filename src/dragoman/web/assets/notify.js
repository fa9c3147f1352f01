// Tell somebody who does not look at the page: a mark in the title, and a notification where the browser allows it.
import { memory } from "./dom.js";
import { BASE } from "./model/api.js";

let baseTitle = "Dragoman";
let count = 0;
let worker = null;

/** Register the service worker, where there can be one. */
export async function registerWorker(onopen) {
  if (!("serviceWorker" in navigator) || !isSecureContext) return;
  const policy = globalThis.trustedTypes?.createPolicy("dragoman", { createScriptURL: () => `${BASE}sw.js` });
  try {
    worker = await navigator.serviceWorker.register(policy ? policy.createScriptURL("") : `${BASE}sw.js`, { scope: BASE });
    navigator.serviceWorker.addEventListener("message", (event) => typeof event.data?.open === "string" && onopen(event.data.open));
  } catch {
    // a page that is not served over TLS, or a browser that forbids it: the title still tells
  }
}

export function setTitle(text) {
  baseTitle = text ? `${text} · Dragoman` : "Dragoman";
  show();
}

/** How many questions wait for somebody. */
export function setCount(number) {
  count = number;
  show();
  if (number) navigator.setAppBadge?.(number).catch(() => {});
  else navigator.clearAppBadge?.().catch(() => {});
}

function show() {
  document.title = count ? `(${count}) ${baseTitle}` : baseTitle;
}

export const canNotify = () => "Notification" in globalThis;
export const mayNotify = () => canNotify() && Notification.permission === "granted" && memory.get("notify", true);

/** Ask the browser for leave to notify. */
export async function enableNotifications() {
  if (!canNotify()) return false;
  memory.set("notify", true);
  return (await Notification.requestPermission()) === "granted";
}

/** Notify, unless the page is looked at. `hash` is where a click leads. */
export async function notify(title, body, hash) {
  if (!mayNotify() || (!document.hidden && document.hasFocus())) return;
  const options = { body, tag: hash, data: hash, lang: "en" };
  try {
    if (worker?.active) await worker.showNotification(title, options);
    else {
      const made = new Notification(title, options);
      made.addEventListener("click", () => {
        focus();
        location.hash = hash;
        made.close();
      });
    }
  } catch {
    // some phones only notify from an installed page
  }
}

