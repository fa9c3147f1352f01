// The view of one session: head, transcript, questions, composer.
import { fill, h, oncePerFrame, setText } from "../dom.js";
import { icon } from "../icons.js";
import { LiveSession } from "../model/session.js";
import { visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { Composer } from "./composer.js";
import { estimateHeight, itemView } from "./items.js";
import { button, duration, face, iconButton, shortPath } from "./parts.js";
import { QuestionDock } from "./question.js";
import { sessionMenu, shareDialog } from "./session_menu.js";
import { SidePanel } from "./side.js";
import { VirtualList } from "./virtual_list.js";

// Streamed text is drawn at this pace: faster than one reads, and cheap at any rate of chunks. Milliseconds.
const DRAW_PAUSE = 100;

// Earlier entries are read when one scrolls this near to the beginning. Pixels.
const NEAR_TOP = 1200;

/** One session on the screen. `tab` is chat or side, for narrow screens. */
export class SessionView {
  #ends = [];

  constructor(app, id) {
    this.app = app;
    this.host = app.host;
    this.session = new LiveSession(app.host, id);
    const { session } = this;
    this.title = h("h1.clip");
    this.place = h("p.place.clip");
    this.people = h("ul.people", { "aria-label": T.here });
    this.share = button(T.share, () => shareDialog(this.host, session), { glyph: "link", kind: "share" });
    this.more = iconButton("dots", T.sessionMenu, () => sessionMenu(this.more, this.app, session), { "aria-haspopup": "menu", "aria-expanded": "false" });
    this.back = h("a.icon.show-s", { href: "#/", "aria-label": T.allSessions }, icon("back"));
    const head = h("header.head", null, this.back, h("div.titles.grow", null, this.title, this.place), this.people, this.share, this.more);
    this.banner = h("div.banner", { role: "status", hidden: true });
    this.column = h("div.col");
    this.log = h("div.log", { tabindex: "0", role: "log", "aria-label": T.transcript, "aria-live": "off" }, this.column);
    this.state = h("div.center", { "aria-busy": "true" }, h("p.dim", null, T.loading));
    this.toEnd = button(T.toEnd, () => this.list.scrollToEnd(), { glyph: "down", kind: "to-end" });
    this.toEnd.hidden = true;
    this.dock = new QuestionDock(session);
    this.composer = new Composer(session, { onsent: () => this.list.scrollToEnd() });
    this.decided = h("p.decided.vh", { role: "status" });
    this.lower = h("div.dock", null, h("div.col", null, this.dock.element, this.composer.element, this.decided));
    this.element = h("main", { id: "main" }, head, h("div.middle", null, this.banner, h("h2.vh", null, T.transcript), this.log, this.state, this.toEnd), this.lower);
    this.side = new SidePanel(session, this);
    this.list = new VirtualList(this.log, this.column, { render: (item) => itemView(item, session), estimate: estimateHeight });
    this.list.onscroll = () => this.#onScroll();
    this.#listen();
    this.log.hidden = true;
    session.open();
  }

  #listen() {
    const { session } = this;
    const draw = oncePerFrame(() => this.#draw(), DRAW_PAUSE);
    session.on("items", draw);
    session.on("ready", () => this.#onReady());
    session.on("closed", () => this.#showClosed());
    session.on("members", () => this.#showHead());
    session.on("role", () => this.#showHead());
    session.on("side", () => this.#showHead());
    session.on("turn", () => this.host.noteSeen(session.id, session.cursor));
    session.on("turn", () => this.#showTime());
    session.on("questions", () => this.#onQuestions());
    session.on("reconnected", () => this.#showReconnected());
    this.#ends.push(
      this.host.on("sessions", () => this.#showHead()),
      this.host.on("state", () => this.#showConnection()),
    );
    this.clock = setInterval(() => this.#showTime(), 1000);
    this.#showHead();
    this.#showConnection();
  }

  destroy() {
    for (const end of this.#ends) end();
    clearInterval(this.lostTimer);
    clearInterval(this.clock);
    this.host.noteSeen(this.session.id, this.session.cursor);
    this.session.close();
    this.list.destroy();
  }

  // --- what is shown -------------------------------------------------------------------------------------------------------

  #draw() {
    this.list.showItems(this.session.transcript.items);
    this.#showEmpty();
    if (!document.hidden) this.host.noteSeen(this.session.id, this.session.cursor);
  }

  #onReady() {
    this.log.hidden = false;
    this.state.hidden = true;
    this.list.setItems(this.session.transcript.items);
    this.list.scrollToEnd();
    this.#showHead();
    this.#showEmpty();
    this.composer.update();
    this.side.update();
    this.#showTime();
    this.host.noteSeen(this.session.id, this.session.cursor);
    if (matchMedia("(pointer: fine)").matches && this.session.canWrite) this.composer.focus();
  }

  #showEmpty() {
    const isEmpty = !this.session.transcript.items.length && !this.session.hasOlder;
    if (isEmpty && !this.empty) {
      this.empty = h("div.empty", null, h("h2", null, T.nothingYet), h("p.soft", null, this.session.canWrite ? T.startHere : T.startByOthers));
      this.column.before(this.empty);
    } else if (!isEmpty && this.empty) {
      this.empty.remove();
      this.empty = null;
    }
  }

  #showHead() {
    const { session } = this;
    const summary = this.host.find(session.id);
    const name = summary?.name || "";
    const title = summary?.title || session.transcript.title || "";
    setText(this.title, visibleLine(session.missing ? T.sessionGoneTitle : name || title || T.untitled, 120));
    const parts = [name && name !== title ? visibleLine(title, 60) : "", visibleLine(session.agentName, 40), shortPath(session.cwd, "")];
    setText(this.place, parts.filter(Boolean).join(" · "));
    const people = new Map(session.members.map((member) => [member.user, member]));
    fill(this.people, [...people.values()].slice(0, 4).map((member) => h("li", null, face(member.user, member.state))), people.size > 4 ? h("li.dim", null, `+${people.size - 4}`) : null);
    this.share.hidden = session.role !== "admin" || Boolean(this.host.me.session);
    this.more.hidden = Boolean(session.closed);
    this.app.setTitle(this.title.textContent);
    this.element.dataset.role = session.role;
  }

  // One clock for all places that show how long the turn takes: two would differ by a second.
  #showTime() {
    const turn = this.session.transcript.openTurn;
    const text = turn ? duration((Date.now() - turn.since) / 1000) : "";
    for (const place of [this.composer.time, this.side.time]) setText(place, text);
  }

  #onQuestions() {
    this.app.noteQuestions(this.session);
    if (this.list.sticksToEnd) this.list.schedule();
  }

  #onScroll() {
    this.toEnd.hidden = this.list.sticksToEnd;
    if (this.log.scrollTop < NEAR_TOP && this.session.hasOlder && !this.session.loadingOlder && !this.session.loading) this.#loadOlder();
  }

  async #loadOlder() {
    try {
      const change = this.session.loadOlder();
      await change;
      this.list.keepPlace(() => this.list.setItems(this.session.transcript.items));
    } catch {
      // the next scroll tries again
    }
  }

  /** Show the entry with this number, reading back as far as it is. */
  async goTo(seq) {
    if (this.session.loading) await new Promise((resolve) => this.session.on("ready", resolve));
    while (this.session.transcript.firstSeq > seq && this.session.hasOlder) await this.#loadOlder();
    const { items } = this.session.transcript;
    let at = items.findIndex((item) => item.seq > seq);
    if (at < 0) at = items.length;
    this.list.scrollTo(Math.max(0, at - 1), true);
  }

  #showConnection() {
    const { state } = this.host;
    clearInterval(this.lostTimer);
    if (state === "live" || state === "signed-out") {
      if (!this.reconnectedUntil) this.banner.hidden = true;
      this.composer.update();
      return;
    }
    const text = h("span");
    const tell = () => {
      const seconds = Math.round((Date.now() - (this.host.lostAt || Date.now())) / 1000);
      setText(text, state === "stopping" ? T.hostStopping : state === "connecting" ? T.connecting : T.lostFor(seconds, this.session.cursor));
    };
    tell();
    this.lostTimer = setInterval(tell, 1000);
    fill(this.banner, icon("spin", "spin"), text, h("span.grow"), button(T.tryNow, () => this.host.retry()));
    this.banner.hidden = state === "connecting" && !this.host.lostAt;
    this.composer.update();
  }

  #showReconnected() {
    const { entries } = this.session.caughtUp;
    fill(this.banner, icon("check"), h("span", null, T.connectedAgain(entries)));
    this.banner.hidden = false;
    clearTimeout(this.reconnectedUntil);
    this.reconnectedUntil = setTimeout(() => {
      this.reconnectedUntil = 0;
      if (this.host.state === "live") this.banner.hidden = true;
    }, 8000);
    this.composer.update();
  }

  #showClosed() {
    const { session } = this;
    this.#showHead();
    const reason = session.missing ? T.sessionMissing : visibleLine(session.closed, 200);
    const hasItems = session.transcript.items.length > 0;
    const box = h(
      "div.sheet-box",
      { role: "alert" },
      h("h2", null, session.missing ? T.sessionGoneTitle : T.sessionClosedTitle),
      h("p", null, reason),
      h("p.soft", null, session.missing ? T.sessionMissingNext : T.sessionClosedNext),
      h("div.choose", null, h("a.btn.main", { href: "#/" }, T.allSessions)),
    );
    if (hasItems) {
      this.lower.replaceChildren(h("div.col", null, box));
      return;
    }
    fill(this.state, box);
    this.state.removeAttribute("aria-busy");
    this.state.hidden = false;
    this.log.hidden = true;
    this.lower.hidden = true;
  }

  // --- keys --------------------------------------------------------------------------------------------------------------------

  /** Handle a key that no field took; true if it was one of the session's. */
  press(event) {
    if (this.dock.press(event)) return true;
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return false;
    act(this);
    return true;
  }

  move(step, matches = () => true) {
    const { items } = this.session.transcript;
    let at = items.indexOf(this.focused);
    if (at < 0) at = step > 0 ? this.list.firstVisible() - 1 : items.length;
    do at += step;
    while (at >= 0 && at < items.length && !matches(items[at]));
    if (at < 0 || at >= items.length) return;
    this.focused = items[at];
    this.list.scrollTo(at);
    this.list.elementOf(items[at])?.querySelector("[tabindex='-1']")?.focus({ preventScroll: true });
  }

  toggle() {
    const details = document.activeElement?.closest("details");
    details?.querySelector("summary")?.click();
  }
}

const KEYS = {
  i: (view) => view.composer.focus(),
  j: (view) => view.move(1),
  k: (view) => view.move(-1),
  "]": (view) => view.move(1, (item) => item.type === "user"),
  "[": (view) => view.move(-1, (item) => item.type === "user"),
  o: (view) => view.toggle(),
  q: (view) => view.dock.focus(),
  G: (view) => view.list.scrollToEnd(),
  p: (view) => view.side.toggle(),
};
