// The host as this page sees it: who one is, the sessions, and the connection, which is made again when it is lost.
import { Emitter, memory } from "../dom.js";
import { api, Refused, sessionPath, socketAddress } from "./api.js";
import { Rpc } from "./rpc.js";

// Pauses between attempts to connect again, in milliseconds; the last one repeats.
const PAUSES = [300, 1000, 2000, 4000, 8000, 15000];

// A lost connection is noticed by the socket; a frozen phone notices it late, so the page asks when it wakes up.
const CHECK_AFTER = 20000;

// The list is fetched again at this pace, for changes that nobody tells: sessions deleted by others. Milliseconds.
const REFRESH = 60000;

const TOPICS = { presence: true, queue: true, turns: true, permissions: true, terminals: true, sessions: true };
const CAPABILITIES = {
  fs: { readTextFile: false, writeTextFile: false },
  terminal: false,
  elicitation: { form: {}, url: {} },
  session: { notices: {}, compaction: {}, configOptions: { boolean: {} } },
  plan: {},
  _meta: { dragoman: { host: TOPICS } },
};

/** Events: me, sessions, state, call (method, params, id). `state` is connecting, live, lost, stopping or signed-out. */
export class HostModel extends Emitter {
  me = null;
  agent = null; // what the default agent said in initialize
  sessions = [];
  state = "connecting";
  reason = "";
  lostAt = 0;
  rpc = null;
  #attempt = 0;
  #timer = 0;
  #refreshing = null;
  #changed = new Set();

  /** Find out who this is, then connect. Throws Refused. */
  async start() {
    this.me = await api("GET", "host");
    this.emit("me");
    this.connect();
    await this.refresh();
    setInterval(() => document.hidden || this.refresh(), REFRESH);
    document.addEventListener("visibilitychange", () => this.#wake());
    addEventListener("online", () => this.retry());
  }

  connect() {
    clearTimeout(this.#timer);
    const rpc = new Rpc(socketAddress(), {
      serve: (method, params, id) => this.#serve(method, params, id),
      onopen: () => this.#initialize(rpc),
      onclose: (code, reason) => rpc === this.rpc && this.#onClose(code, reason),
    });
    this.rpc = rpc;
  }

  /** Try now instead of later. */
  retry() {
    if (this.state !== "live" && this.state !== "signed-out") {
      this.#attempt = 0;
      this.connect();
    }
  }

  async #initialize(rpc) {
    try {
      this.agent = await rpc.call("initialize", initializeParams());
    } catch (error) {
      if (rpc === this.rpc && rpc.isOpen) {
        this.reason = error.message;
        rpc.close();
      }
      return;
    }
    this.#attempt = 0;
    this.#setState("live", "");
    this.refresh();
  }

  async #onClose(code, reason) {
    if (!this.lostAt) this.lostAt = Date.now();
    if (code === 4401) return this.#checkAccess(reason);
    if (code === 1001) this.#setState("stopping", reason);
    else if (this.state !== "stopping") this.#setState("lost", reason);
    const pause = PAUSES[Math.min(this.#attempt, PAUSES.length - 1)];
    this.#attempt += 1;
    this.#timer = setTimeout(() => this.#attemptAgain(), pause * (0.8 + Math.random() * 0.4));
  }

  // A browser does not say why an upgrade was refused, so the API is asked.
  async #attemptAgain() {
    try {
      this.me = await api("GET", "host");
      this.emit("me");
    } catch (error) {
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
        this.#setState("signed-out", error.message);
        return;
      }
      if (error instanceof Refused && error.status === 503) this.#setState("stopping", error.message);
      else if (this.state !== "stopping") this.#setState("lost", "");
      this.#onClose(1006, "");
      return;
    }
    this.connect();
  }

  async #checkAccess(reason) {
    try {
      await api("GET", "host");
    } catch (error) {
      if (error.status === 401 || error.status === 403) {
        // The host closes the connection of an expired token as that of a revoked one; the API knows which it is.
        this.#setState("signed-out", /expired|revoked/.test(error.message) ? error.message : reason || error.message);
        return;
      }
    }
    this.#onClose(1006, reason);
  }

  #wake() {
    if (document.hidden) return;
    if (this.state !== "live") this.retry();
    else if (Date.now() - (this.lastFrame || 0) > CHECK_AFTER) {
      const rpc = this.rpc;
      const timer = setTimeout(() => rpc === this.rpc && rpc.close(), 5000);
      rpc.call("session/list", {}).then(() => clearTimeout(timer), () => {});
    }
    this.refresh();
  }

  #setState(state, reason) {
    if (state === "live") this.lostAt = 0;
    const before = this.state;
    this.state = state;
    this.reason = reason;
    if (before !== state || state === "live") this.emit("state", before);
  }

  #serve(method, params, id) {
    this.lastFrame = Date.now();
    if (method === "_dragoman/session") {
      this.#noteChanged(params.sessionId);
      return true;
    }
    if (method === "$/cancel_request") {
      this.emit("withdrawn", params.requestId);
      return true;
    }
    const call = { method, params, id, taken: false };
    this.emit("call", call);
    return id === undefined || call.taken;
  }

  // --- sessions ---------------------------------------------------------------------------------------------------

  async refresh() {
    this.#refreshing ||= api("GET", "sessions")
      .then((answer) => {
        this.sessions = answer.sessions;
        this.emit("sessions");
      })
      .catch(() => {})
      .finally(() => {
        this.#refreshing = null;
      });
    return this.#refreshing;
  }

  #noteChanged(id) {
    if (!this.#changed.size) setTimeout(() => this.#fetchChanged(), 150);
    this.#changed.add(id);
  }

  async #fetchChanged() {
    const ids = [...this.#changed];
    this.#changed.clear();
    if (ids.length > 5) {
      await this.refresh();
      return;
    }
    await Promise.all(ids.map((id) => this.fetchSession(id).catch(() => {})));
  }

  /** Fetch one session again; it leaves the list if it is gone. */
  async fetchSession(id) {
    let found = null;
    try {
      found = await api("GET", sessionPath(id));
    } catch (error) {
      if (error.status !== 404) throw error;
    }
    this.sessions = this.sessions.filter((session) => session.sessionId !== id);
    if (found) this.sessions.unshift(found);
    this.emit("sessions");
    return found;
  }

  find(id) {
    return this.sessions.find((session) => session.sessionId === id) || null;
  }

  // --- what was seen on this device ---------------------------------------------------------------------------------

  isUnread(session) {
    const seen = memory.get("seen", {})[session.sessionId];
    return seen !== undefined && session.entries > seen;
  }

  noteSeen(id, entries) {
    const seen = memory.get("seen", {});
    if (!(seen[id] >= entries)) memory.set("seen", { ...seen, [id]: entries });
  }
}

/** The parameters of initialize. */
export function initializeParams() {
  const clientInfo = { name: "dragoman-web", title: "Dragoman web page", version: "1" };
  return { protocolVersion: 1, clientInfo, clientCapabilities: CAPABILITIES };
}

/** Whether a role includes the rights of another. */
export function isAtLeast(role, required) {
  const ranks = ["viewer", "editor", "admin"];
  return ranks.indexOf(role) >= ranks.indexOf(required);
}
