// One session while it is on the screen: its history, what is live, its questions, and what one does in it.
import { Emitter } from "../dom.js";
import { api, isTemporary, logEntries, sessionPath } from "./api.js";
import { isAtLeast } from "./host.js";
import { ConnectionLost } from "./rpc.js";
import { changeSetting } from "./settings.js";
import { Transcript } from "./transcript.js";

// Entries read at first, and in each step back: enough for many screens, little enough for one moment.
const FIRST_ENTRIES = 1500;
const PAGE = 2000;

// How long "typing" holds after the last key, in milliseconds.
const TYPING = 4000;

/** Events: items, side, questions, queue, closed, ready. Call `close` when it leaves the screen. */
export class LiveSession extends Emitter {
  transcript = new Transcript();
  role = "viewer";
  members = [];
  waiting = []; // the queue as the host tells it
  sent = []; // prompts of this page: {id, blocks, text, state, promptId}
  questions = []; // open ones: {id, method, params, at}
  workspace = null;
  closed = "";
  missing = false;
  loading = true;
  loadingOlder = false;
  caughtUp = null; // {entries, seconds} after a reconnection
  cursor = 0;
  #ends = [];
  #typingTimer = 0;
  #state = "";
  #attaching = false;
  #wasAttached = false;

  constructor(host, id) {
    super();
    this.host = host;
    this.id = id;
    this.transcript.onchange = (item) => this.emit("items", item);
    this.#ends.push(
      host.on("call", (call) => call.params.sessionId === id && this.#serve(call)),
      host.on("state", () => this.#onState()),
      host.on("withdrawn", (question) => this.withdrawQuestion(question)),
    );
  }

  get canWrite() {
    return isAtLeast(this.role, "editor");
  }

  get isRunning() {
    return this.transcript.openTurn !== null;
  }

  /** The folder that the session works in. */
  get cwd() {
    return this.transcript.opened?.cwd || this.host.find(this.id)?.cwd || "";
  }

  /** What the agent calls itself. */
  get agentName() {
    const agent = this.transcript.opened?.agent;
    return agent?.title || agent?.name || this.host.find(this.id)?.agent || "";
  }

  /** Whether the log has earlier entries than those shown. */
  get hasOlder() {
    return this.transcript.firstSeq > 1;
  }

  /** Read the end of the log, then join. */
  async open() {
    let summary;
    try {
      summary = await this.host.fetchSession(this.id);
    } catch (error) {
      this.#failWith(error);
      return;
    }
    if (!summary) {
      this.missing = true;
      this.#fail("");
      return;
    }
    this.role = summary.role;
    this.members = summary.members || [];
    try {
      this.cursor = Math.max(0, summary.entries - FIRST_ENTRIES);
      await this.#readForward();
    } catch (error) {
      this.#failWith(error);
      return;
    }
    this.loading = false;
    this.emit("ready");
    if (this.host.state === "live") await this.#attach();
  }

  async #readForward() {
    for (;;) {
      const entries = await logEntries(this.id, this.cursor, PAGE);
      for (const entry of entries) {
        this.#confirmSent(entry);
        this.transcript.apply(entry);
      }
      if (entries.length) this.cursor = entries.at(-1).seq;
      if (entries.length < PAGE) return;
    }
  }

  /** Read the entries before those shown. */
  async loadOlder() {
    const first = this.transcript.firstSeq;
    if (this.loadingOlder || first <= 1) return 0;
    this.loadingOlder = true;
    try {
      const from = Math.max(0, first - 1 - PAGE);
      const older = new Transcript();
      older.firstSeq = from + 1;
      for (const entry of await logEntries(this.id, from, first - 1 - from)) older.apply(entry);
      older.firstSeq = from + 1;
      for (const item of older.items) item.open = false;
      const before = this.transcript.items.length;
      this.transcript.prepend(older);
      this.emit("side");
      return this.transcript.items.length - before;
    } finally {
      this.loadingOlder = false;
    }
  }

  async #attach() {
    if (this.closed || this.loading || this.#attaching) return;
    this.#attaching = true;
    const { rpc } = this.host;
    try {
      const params = { sessionId: this.id, cursor: this.cursor };
      await rpc.call("session/attach", params);
      this.#state = "attached";
      this.#wasAttached = true;
      this.emit("side");
    } catch (error) {
      if (!(error instanceof ConnectionLost)) this.#failWith(error);
    } finally {
      this.#attaching = false;
    }
  }

  async #onState() {
    if (this.host.state !== "live") {
      this.#state = "";
      for (const question of this.questions) question.lost = true;
      this.emit("queue");
      this.emit("questions");
      return;
    }
    if (this.loading || this.closed || this.#state === "attached") return;
    const before = this.cursor;
    const isAgain = this.#wasAttached; // the transcript can be read before the page is connected for the first time
    this.questions = []; // those that are still open come again
    this.waiting = [];
    this.emit("questions");
    try {
      await this.#readForward();
    } catch (error) {
      if (!isTemporary(error)) this.#failWith(error); // else the connection is gone again, and the next one tries
      return;
    }
    await this.#attach();
    // The queue comes after the answer to attach, and before the answer to the next call.
    await this.host.rpc.call("session/status", { sessionId: this.id }).catch(() => {});
    this.#returnUnsent();
    if (!isAgain) return;
    this.caughtUp = { entries: this.cursor - before };
    this.emit("reconnected");
  }

  #failWith(error) {
    if (error.kind === "session_not_found") this.missing = true;
    this.#fail(error.message);
  }

  #fail(reason) {
    this.closed = reason || "gone";
    this.loading = false;
    this.emit("closed");
  }

  close() {
    for (const end of this.#ends) end();
    if (this.#state === "attached") this.host.rpc.call("session/detach", { sessionId: this.id }).catch(() => {});
    this.#state = "";
  }

  // --- what the host sends -----------------------------------------------------------------------------------------

  #serve(call) {
    const { method, params, id } = call;
    if (method === "session/request_permission" || method === "elicitation/create") {
      call.taken = true;
      const deadline = params._meta?.dragoman?.secondsLeft;
      const question = { id, method, params, at: performance.now(), shown: 0, ends: deadline ? Date.now() + deadline * 1000 : 0 };
      this.questions.push(question);
      if (params.toolCall) this.applyLive("asked", params, 0);
      this.emit("questions");
      return;
    }
    LIVE[method]?.(this, params);
  }

  /** Apply an update or another live message as an entry of the log. */
  applyLive(kind, body, seq, more = {}) {
    const turn = this.transcript.openTurn?.turn;
    this.transcript.apply({ seq, kind, body, time: new Date().toISOString(), turn, ...more });
    if (seq) this.cursor = Math.max(this.cursor, seq);
  }

  // --- prompts ------------------------------------------------------------------------------------------------------

  /** Send a prompt. It waits in the queue while a turn runs. */
  async prompt(blocks) {
    const text = blocks.map((block) => block.text || "").join(" ").trim();
    const sent = { blocks, text, state: "sending", at: Date.now() };
    this.sent.push(sent);
    this.emit("queue");
    const answer = this.host.rpc.call("session/prompt", { sessionId: this.id, prompt: blocks });
    sent.id = answer.requestId;
    try {
      await answer;
      this.#dropSent(sent);
    } catch (error) {
      if (error instanceof ConnectionLost && sent.state !== "running") {
        sent.state = "unknown"; // after the reconnection the log and the queue say whether it arrived
      } else {
        const wasRunning = sent.state === "running";
        this.#dropSent(sent);
        if (!wasRunning) this.emit("failed", { error, blocks }); // a turn that ran has its end in the log
      }
    }
    this.emit("queue");
  }

  #dropSent(sent) {
    this.sent = this.sent.filter((each) => each !== sent);
    this.emit("queue");
  }

  // A prompt of this page that is in the log has arrived.
  #confirmSent(entry) {
    if (entry.kind !== "prompt" || entry.actor !== this.host.me.user) return;
    const text = (entry.body.prompt || []).map((block) => block.text || "").join(" ").trim();
    const sent = this.sent.find((each) => each.state === "unknown" && each.text === text);
    if (sent) this.#dropSent(sent);
  }

  #returnUnsent() {
    for (const sent of this.sent.filter((each) => each.state === "unknown")) {
      const own = this.waiting.some((each) => each.user === this.host.me.user && sent.text.startsWith(each.preview.replace(/…$/, "").trim().slice(0, 40)));
      this.#dropSent(sent);
      if (!own) this.emit("failed", { error: null, blocks: sent.blocks });
    }
  }

  /** Note that the oldest prompt of this page runs now. */
  noteOwnTurn(seq) {
    const sent = this.sent.find((each) => each.state === "sending" || each.state === "queued");
    if (!sent) return;
    sent.state = "running";
    this.applyLive("prompt", { prompt: sent.blocks }, seq, { actor: this.host.me.user });
    this.emit("queue");
  }

  /** Cancel the running turn. */
  cancel() {
    this.host.rpc.call("_dragoman/stop", { sessionId: this.id }).catch(() => {});
  }

  /** Take a waiting prompt back. */
  withdraw(promptId) {
    return this.host.rpc.call("_dragoman/withdraw", { sessionId: this.id, promptId });
  }

  // --- questions -----------------------------------------------------------------------------------------------------

  /** Answer a question of this session; false if somebody else was faster. */
  answer(question, result) {
    this.#removeQuestion(question);
    return this.host.rpc.answer(question.id, result);
  }

  #removeQuestion(question) {
    this.questions = this.questions.filter((each) => each !== question);
    this.emit("questions");
  }

  /** The host withdrew a question: somebody answered it, or it ran out of time. */
  withdrawQuestion(id) {
    const question = this.questions.find((each) => each.id === id);
    if (question) this.#removeQuestion(question);
  }

  // --- settings -------------------------------------------------------------------------------------------------------

  /** Change the mode, the model or another setting. */
  async setSetting(setting, value) {
    const answer = await changeSetting(this.host.rpc, this.id, setting, value);
    if (answer?.configOptions) this.transcript.options = answer.configOptions;
    this.emit("side");
  }

  /** Tell the others that one types, and when one stops. */
  noteTyping() {
    if (!this.canWrite || this.#state !== "attached") return;
    if (!this.#typingTimer) this.setPresence("typing");
    clearTimeout(this.#typingTimer);
    this.#typingTimer = setTimeout(() => {
      this.#typingTimer = 0;
      this.setPresence(document.hidden ? "idle" : "here");
    }, TYPING);
  }

  setPresence(state) {
    this.host.rpc.notify("_dragoman/presence", { sessionId: this.id, state });
  }

  /** The output of a terminal that the host still has; null if it has none. */
  async fetchTerminal(terminalId) {
    try {
      const path = `${sessionPath(this.id)}/terminals/${encodeURIComponent(terminalId)}`;
      return (await api("GET", path)).output;
    } catch {
      return null;
    }
  }

  /** Files of the session's folder whose path has these letters. */
  async findFiles(text) {
    const answer = await api("GET", `${sessionPath(this.id)}/files?q=${encodeURIComponent(text)}`);
    return answer.files;
  }
}

const LIVE = {
  "session/update"(session, params) {
    const meta = params._meta?.dragoman || {};
    const update = params.update || {};
    if (update.sessionUpdate === "user_message_chunk" && meta.user) {
      session.applyLive("update", update, meta.seq, { actor: meta.user });
    } else session.applyLive("update", update, meta.seq, { actor: "agent" });
    if (SIDE_UPDATES.has(update.sessionUpdate)) session.emit("side");
  },
  "_dragoman/turn"(session, params) {
    if (params.state === "yours") session.noteOwnTurn(params.seq);
    else if (params.state === "ended") session.applyLive("turn_ended", params, params.seq);
    else {
      const since = session.transcript.openTurn;
      if (since?.turn !== params.turn) {
        session.applyLive("turn_started", {}, params.seq, { actor: params.by || "", turn: params.turn });
      }
    }
    session.emit("turn");
    session.emit("side");
  },
  "_dragoman/permission_resolved"(session, params) {
    session.applyLive("decided", params, params.seq, { actor: params.by });
  },
  "_dragoman/agent"(session, params) {
    session.applyLive("agent_exited", params, params.seq);
  },
  "_dragoman/terminal"(session, params) {
    const terminal = session.transcript.terminal(params.terminalId);
    terminal.output = params.output;
    terminal.isKnown = true;
    if (params.exitCode !== undefined || params.signal) terminal.exit = { code: params.exitCode, signal: params.signal };
    session.transcript.touchTerminal(params.terminalId);
  },
  "_dragoman/presence"(session, params) {
    session.members = params.members || [];
    const own = session.members.filter((member) => member.user === session.host.me.user && member.client === "dragoman-web");
    const role = own.at(-1)?.role;
    if (role && role !== session.role) {
      session.role = role;
      session.emit("role");
      session.emit("questions");
    }
    session.emit("side");
    session.emit("members");
  },
  "_dragoman/queue"(session, params) {
    session.waiting = params.waiting || [];
    for (const sent of session.sent) {
      const found = session.waiting.find((each) => each.user === session.host.me.user && !session.sent.some((other) => other !== sent && other.promptId === each.promptId));
      if (sent.state === "sending" && found) {
        sent.state = "queued";
        sent.promptId = found.promptId;
      }
    }
    session.emit("queue");
  },
  "_dragoman/workspace"(session, params) {
    session.workspace = params;
    session.emit("side");
  },
  "_dragoman/closed"(session, params) {
    session.closed = params.reason || "closed";
    session.emit("closed");
  },
};

const SIDE_UPDATES = new Set([
  "plan", "plan_update", "plan_removed", "usage_update", "available_commands_update", "current_mode_update",
  "config_option_update", "session_info_update",
]);
