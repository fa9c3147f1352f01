// The service worker: keeps the files of the page, so that it opens without a connection and says so, and brings a click
// on a notification to its session. It keeps nothing of sessions.
const VERSION = "{version}";
const CACHE = `dragoman-${VERSION}`;

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.add(new Request("./", { cache: "reload" }))));
  self.skipWaiting();
});

self.addEventListener("activate", (event) => {
  const old = (name) => name.startsWith("dragoman-") && name !== CACHE;
  event.waitUntil(
    caches.keys().then((names) => Promise.all(names.filter(old).map((name) => caches.delete(name)))),
  );
  self.clients.claim();
});

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  const scope = new URL(self.registration.scope);
  if (event.request.method !== "GET" || url.origin !== scope.origin || url.search) return;
  if (url.pathname === scope.pathname) {
    event.respondWith(fetch(event.request).catch(() => caches.match("./")));
  } else if (url.pathname.startsWith(`${scope.pathname}web/${VERSION}/`)) {
    event.respondWith(fromCache(event.request));
  }
});

async function fromCache(request) {
  const cache = await caches.open(CACHE);
  const found = await cache.match(request);
  if (found) return found;
  const response = await fetch(request);
  if (response.ok) await cache.put(request, response.clone());
  return response;
}

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const hash = event.notification.data || "";
  event.waitUntil(
    self.clients.matchAll({ type: "window" }).then((windows) => {
      const open = windows[0];
      if (!open) return self.clients.openWindow(`./${hash}`);
      open.postMessage({ open: hash });
      return open.focus();
    }),
  );
});
