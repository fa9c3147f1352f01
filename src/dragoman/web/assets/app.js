// The page: signs in, connects, and shows the view that the address names.
import { fill, h, memory } from "./dom.js";
import { Refused } from "./model/api.js";
import { HostModel, isAtLeast } from "./model/host.js";
import { canNotify, enableNotifications, mayNotify, notify, registerWorker, setCount, setTitle } from "./notify.js";
import { visibleLine } from "./text/visible.js";
import { T } from "./texts.js";
import { Frame, nameOf } from "./view/frame.js";
import { InboxView, SearchView } from "./view/inbox.js";
import { newSessionDialog } from "./view/new_session.js";
import { dialog, openMenu, toast } from "./view/parts.js";
import { SessionView } from "./view/session.js";
import { signIn, signInView, signOut, takeToken, unreachableView } from "./view/sign_in.js";
import { StatusView } from "./view/status.js";

const root = document.querySelector("#root");

class App {
  host = new HostModel();
  frame = null;
  view = null;
  currentId = "";
  #asking = new Map(); // titles of questions by session, as last told

  async start() {
    addEventListener("hashchange", () => this.#onHash());
    const token = takeToken();
    if (token && (await this.#signIn(token))) return;
    try {
      await this.host.start();
    } catch (error) {
      this.#onStartFailed(error);
      return;
    }
    this.frame = new Frame(this);
    fill(root, this.frame.element);
    addEventListener("keydown", (event) => this.#onKey(event));
    this.host.on("state", () => this.#onState());
    this.host.on("sessions", () => this.#onSessions());
    document.addEventListener("visibilitychange", () => this.#onVisibility());
    registerWorker((hash) => (location.hash = hash));
    this.route();
  }

  // A link may be pasted into the address of an open page.
  async #onHash() {
    const token = takeToken();
    if (!token) {
      if (this.frame) this.route();
    } else if (!(await this.#signIn(token))) location.reload();
  }

  // A link has a page of its own, so that the own token of its reader stays as it is.
  async #signIn(token) {
    try {
      const page = await signIn(token);
      if (page === location.pathname) return false;
      location.replace(page);
    } catch (error) {
      fill(root, error.status ? signInView(error.message, true) : unreachableView(error.message, () => location.reload()));
    }
    return true;
  }

  #onStartFailed(error) {
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
      fill(root, signInView(error.message));
      return;
    }
    fill(root, unreachableView(error.message, () => location.reload()));
    setTimeout(() => location.reload(), 5000);
  }

  // --- views -----------------------------------------------------------------------------------------------------------------

  route() {
    const [name = "", first = "", second = "", third = ""] = location.hash.replace(/^#\/?/, "").split("/");
    const only = this.host.me.session;
    if (only && !(name === "s" && first === only)) {
      location.replace(`#/s/${only}`);
      return;
    }
    if (name === "s" && first) this.#showSession(first, second, third);
    else {
      this.currentId = "";
      if (name === "search") this.#show(new SearchView(this, decodeURIComponent(first)), "search", T.search);
      else if (name === "status") this.#show(new StatusView(this), "status", T.hostStatus);
      else this.#show(new InboxView(this), "inbox", T.sessions);
    }
  }

  #showSession(id, part, seq) {
    const isSame = this.view instanceof SessionView && this.currentId === id && !this.view.session.missing;
    this.currentId = id;
    if (!isSame) this.#show(new SessionView(this, id), "session");
    this.frame.element.dataset.view = part === "side" ? "side" : "session";
    this.frame.updateTabs();
    if (part === "at") this.view.goTo(Number(seq));
  }

  #show(view, name, title) {
    this.view?.destroy();
    this.view = view;
    this.frame.setView(view, name);
    if (title) this.setTitle(title);
  }

  setTitle(text) {
    setTitle(text);
  }

  // --- states ------------------------------------------------------------------------------------------------------------------

  #onState() {
    if (this.host.state !== "signed-out") return;
    this.view?.destroy();
    this.view = null;
    fill(root, signInView(this.host.reason || T.signedOut));
    setTitle("");
  }

  // Questions of sessions that are not on the screen are told by the list.
  #onSessions() {
    const asking = this.host.sessions.filter((session) => session.state === "asking" && isAtLeast(session.role, "editor"));
    setCount(asking.length);
    for (const session of asking) {
      const text = session.question || T.asksYou;
      if (this.#asking.get(session.sessionId) === text) continue;
      this.#asking.set(session.sessionId, text);
      notify(T.notifyTitle(nameOf(session)), visibleLine(text, 120), `#/s/${session.sessionId}`);
    }
    const ids = new Set(asking.map((session) => session.sessionId));
    for (const id of [...this.#asking.keys()]) if (!ids.has(id)) this.#asking.delete(id);
  }

  noteQuestions(session) {
    const others = this.host.sessions.filter((each) => each.state === "asking" && each.sessionId !== session.id && isAtLeast(each.role, "editor"));
    setCount(others.length + (session.canWrite && session.questions.length ? 1 : 0));
  }

  #onVisibility() {
    const { session } = this.view instanceof SessionView ? this.view : {};
    if (session && this.host.state === "live") session.setPresence(document.hidden ? "idle" : "here");
  }

  // --- actions -----------------------------------------------------------------------------------------------------------------

  async newSession() {
    const id = await newSessionDialog(this.host);
    if (!id) return;
    await this.host.fetchSession(id).catch(() => {});
    location.hash = `#/s/${id}`;
  }

  switchTheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    memory.set("theme", next);
  }

  accountMenu(anchor) {
    const { me } = this.host;
    const on = mayNotify();
    openMenu(
      anchor,
      [
        me.session ? null : { text: T.hostStatus, glyph: "gauge", act: () => (location.hash = "#/status") },
        canNotify() ? { text: on ? T.notifyOff : T.notifyOn, glyph: "bell", act: () => this.#switchNotifications(on) } : null,
        { text: T.whoAmI, glyph: "people", act: () => this.whoAmI() },
        { text: T.keys, glyph: "keyboard", act: () => this.showKeys() },
        me.local ? null : { text: T.signOut, glyph: "out", act: () => signOut() },
      ],
      T.account,
    );
  }

  async #switchNotifications(on) {
    if (on) memory.set("notify", false);
    else if (!(await enableNotifications())) toast(T.notifyDenied, "bad");
    else toast(T.notifyNow);
  }

  whoAmI() {
    const { me } = this.host;
    const facts = [
      [T.user, me.user],
      [T.role, `${T.roles[me.role]}: ${T.rights[me.role]}`],
      [T.access, me.session ? T.accessLink : me.local ? T.accessLocal : T.accessToken],
      [T.valid, me.expires ? T.until(new Date(me.expires * 1000)) : T.noExpiry],
      [T.folders, me.roots === null ? T.anyFolder : me.roots.join(", ") || T.noFolder],
    ];
    return dialog(T.whoAmI, () => h("div.box-body", null, h("dl.facts.wide", null, facts.map(([name, text]) => [h("dt", null, name), h("dd", null, visibleLine(text, 300))]))));
  }

  showKeys() {
    return dialog(T.keys, () => h("div.box-body.keys", null, T.keyGroups.map(({ title, keys }) => h("section", null, h("h3", null, title), h("dl", null, keys.map(([key, text]) => [h("dt", null, key.split(" ").map((each) => h("kbd", null, each))), h("dd", null, text)]))))), { wide: true });
  }

  // --- keys ----------------------------------------------------------------------------------------------------------------------

  #onKey(event) {
    if (event.defaultPrevented || document.querySelector("dialog[open], .menu-layer")) return;
    const field = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (field) return;
    if (event.key === "Escape" && this.view instanceof SessionView) this.view.log.focus();
    if (this.view?.press?.(event)) {
      event.preventDefault();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act(this);
  }
}

const KEYS = {
  "?": (app) => app.showKeys(),
  "/": (app) => (innerWidth > 700 ? app.frame.filter : app.view.find)?.focus(),
  g: () => (location.hash = "#/"),
  n: (app) => !app.host.me.session && isAtLeast(app.host.me.role, "editor") && app.newSession(),
  s: () => (location.hash = "#/status"),
  t: (app) => app.switchTheme(),
};

new App().start();
