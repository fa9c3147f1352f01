// The JSON API of the host, relative to the page: it works below any path.

/** The refusal of a request: status 0 if the host was not reached. */
export class Refused extends Error {
  constructor(status, error) {
    super(error?.message || `status ${status}`);
    this.status = status;
    this.kind = error?.kind || "";
  }
}

/** Whether a request may succeed when the host is there again: it was not reached, is stopping, or wants a sign-in. */
export const isTemporary = (error) => error instanceof Refused && [0, 401, 503].includes(error.status);

/** The path of the page, with a slash at its end. A link opens /acp, and its page is beside it. */
export const BASE = location.pathname.replace(/[^/]*$/, "");

/** Request a path below /api/ and return its JSON. */
export async function api(method, path, body) {
  const response = await request(method, path, body);
  return response.json();
}

/** The same for an answer that is not JSON. */
export async function request(method, path, body) {
  const init = { method, credentials: "same-origin", redirect: "error", cache: "no-store" };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  let response;
  try {
    response = await fetch(`${BASE}api/${path}`, init);
  } catch {
    throw new Refused(0, { message: "the host cannot be reached" });
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new Refused(response.status, answer.error);
  }
  return response;
}

/** The part of a path for a session. */
export const sessionPath = (id) => `sessions/${encodeURIComponent(id)}`;

/** Entries of a log after a number, parsed. */
export async function logEntries(id, after, limit) {
  const response = await request("GET", `${sessionPath(id)}/log?after=${after}&limit=${limit}&intact=1`);
  const entries = [];
  for (const line of (await response.text()).split("\n")) if (line) entries.push(JSON.parse(line));
  return entries;
}

/** The address of the WebSocket for an agent; "" is the default agent. */
export function socketAddress(agent = "") {
  const url = new URL(`${BASE}acp${agent ? `/${encodeURIComponent(agent)}` : ""}`, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}
