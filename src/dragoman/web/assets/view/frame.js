// The frame of the page: the list of sessions at the left, the view, the status line; tabs on a phone.
import { fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { isAtLeast } from "../model/host.js";
import { visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { ago, face, iconButton } from "./parts.js";

/** What a session is doing: ask, work, done (not seen), fail or sleep. */
export function stateOfSession(session, host) {
  if (session.state === "asking") return "ask";
  if (session.state === "running") return "work";
  if (session.archived) return "archived";
  if (session.exited) return "fail";
  return host.isUnread(session) ? "done" : "sleep";
}

/** The groups of the list, with what needs somebody first. */
export function groupSessions(sessions, host, filter = "") {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = { ask: [], work: [], done: [], rest: [], archived: [] };
  for (const session of sessions) {
    const text = `${session.name || ""} ${session.title || ""} ${session.agent || ""} ${session.cwd || ""}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    const state = stateOfSession(session, host);
    groups[state === "sleep" || state === "fail" ? "rest" : state].push(session);
  }
  for (const group of Object.values(groups)) group.sort((one, two) => (two.updatedAt || "").localeCompare(one.updatedAt || ""));
  return groups;
}

/** What a row says about a session, in one line. */
export function describeSession(session, host) {
  const state = stateOfSession(session, host);
  if (state === "ask") return visibleLine(session.question || T.asksYou, 120);
  const agent = visibleLine(session.agent || "", 40);
  if (state === "work") return T.works(agent);
  if (state === "fail") return T.agentGone;
  const parts = [agent, visibleLine((session.cwd || "").split("/").pop(), 40)];
  if (state === "done") parts.unshift(T.notSeen);
  if (session.archived) parts.unshift(T.archived);
  return parts.filter(Boolean).join(" · ");
}

export const nameOf = (session) => visibleLine(session.name || session.title || T.untitled, 80);

/** The frame. */
export class Frame {
  constructor(app) {
    this.app = app;
    this.host = app.host;
    this.filter = h("input", { type: "search", placeholder: T.find, "aria-label": T.find, oninput: () => this.updateList(), onkeydown: (event) => this.#onFindKey(event) });
    this.list = h("div.list", { id: "session-list" });
    this.me = h("div.me");
    this.nav = h(
      "nav.sessions",
      { "aria-label": T.sessions },
      h("div.brand", null, h("a", { href: "#/" }, icon("mark"), "Dragoman"), h("span.host", null, location.host)),
      h("div.find", null, icon("search"), this.filter, h("kbd", { "aria-hidden": "true" }, "/")),
      this.list,
      this.me,
    );
    this.status = h("footer.status");
    this.tabs = h("nav.tabs", { "aria-label": T.views });
    this.place = h("div.place-main");
    this.sidePlace = h("div.place-side");
    this.element = h("div.app", null, h("a.skip", { href: "#main", onclick: (event) => this.#skip(event) }, T.skip), this.nav, this.place, this.sidePlace, this.status, this.tabs);
    this.host.on("sessions", () => this.updateList());
    this.host.on("me", () => this.#updateMe());
    this.host.on("state", () => this.updateStatus());
    setInterval(() => document.hidden || this.updateList(), 30000);
    this.#updateMe();
    this.updateStatus();
  }

  /** Show a view: {element, side}. */
  setView(view, name) {
    fill(this.place, view.element);
    fill(this.sidePlace, view.side?.element || null);
    this.element.dataset.view = name;
    this.element.classList.toggle("wide", !view.side);
    this.updateList();
    this.updateTabs();
    this.updateStatus();
  }

  #skip(event) {
    event.preventDefault();
    const main = document.querySelector("#main");
    main?.setAttribute("tabindex", "-1");
    main?.focus();
  }

  #onFindKey(event) {
    const words = this.filter.value.trim();
    if (event.key === "Enter" && words) location.hash = `#/search/${encodeURIComponent(words)}`;
    else if (event.key === "Escape") {
      this.filter.value = "";
      this.updateList();
      this.filter.blur();
    } else return;
    event.stopPropagation();
  }

  updateList() {
    const groups = groupSessions(this.host.sessions, this.host, this.filter.value);
    const current = this.app.currentId;
    const rows = (sessions) => h("ul", null, sessions.map((session) => this.#row(session, current)));
    const heading = (text, sessions, className = "") => h("h2", null, text, h("span.num", { class: className }, String(sessions.length)));
    fill(
      this.list,
      groups.ask.length ? [heading(T.needsYou, groups.ask, "count"), rows(groups.ask)] : null,
      groups.work.length ? [heading(T.working, groups.work), rows(groups.work)] : null,
      groups.done.length + groups.rest.length ? [heading(T.recent, [...groups.done, ...groups.rest]), rows([...groups.done, ...groups.rest].slice(0, 200))] : null,
      this.filter.value && groups.archived.length ? [heading(T.archivedTitle, groups.archived), rows(groups.archived)] : null,
      this.filter.value.trim() ? h("p.pad", null, h("a", { href: `#/search/${encodeURIComponent(this.filter.value.trim())}` }, T.searchTranscripts)) : null,
      !this.host.sessions.length ? h("p.dim.pad", null, T.noSessions) : null,
    );
    this.updateTabs();
  }

  #row(session, current) {
    const state = stateOfSession(session, this.host);
    const isCurrent = session.sessionId === current;
    return h(
      "li",
      null,
      h(
        "a.row",
        { href: `#/s/${session.sessionId}`, "aria-current": isCurrent ? "page" : null },
        h("span.dot", { class: state, role: "img", "aria-label": T.states[state] }),
        h("span.name.clip", null, nameOf(session)),
        h("span.when", null, ago(session.updatedAt)),
        h("span.what.clip", { class: state === "ask" ? "ask" : "" }, describeSession(session, this.host)),
      ),
    );
  }

  #updateMe() {
    const { me } = this.host;
    if (!me) return;
    const theme = iconButton("moon", T.theme, () => this.app.switchTheme());
    const create = isAtLeast(me.role, "editor") && !me.session ? iconButton("plus", T.newSession, () => this.app.newSession()) : null;
    const account = iconButton("dots", T.account, () => this.app.accountMenu(account), { "aria-haspopup": "menu", "aria-expanded": "false" });
    fill(this.me, face(me.user), h("span.clip", null, visibleLine(me.user, 60)), h("span.dim", null, T.roles[me.role] || me.role), h("span.grow"), theme, create, account);
  }

  updateStatus() {
    const { state } = this.host;
    const keys = [["j k", T.keyMove], ["i", T.keyWrite], ["g", T.keySessions], ["/", T.keyFind], ["?", T.keyAll]];
    fill(
      this.status,
      h("span.live", { class: state, role: "status" }, T.connection[state] || state),
      h("span.spring"),
      keys.map(([key, text]) => h("span.hide-s", null, key.split(" ").map((each) => h("kbd", null, each)), ` ${text}`)),
    );
  }

  updateTabs() {
    const asks = this.host.sessions.filter((session) => session.state === "asking").length;
    const id = this.app.currentId;
    const view = this.element.dataset.view;
    const tab = (href, glyph, text, isCurrent, badge = 0) =>
      h("a", { href, "aria-current": isCurrent ? "page" : null }, icon(glyph), h("span", null, text), badge ? h("span.badge", null, String(badge), h("span.vh", null, ` ${T.needsYou}`)) : null);
    fill(
      this.tabs,
      this.host.me.session ? null : tab("#/", "inbox", T.sessions, view === "inbox", asks),
      id ? tab(`#/s/${id}`, "chat", T.chat, view === "session") : null,
      id ? tab(`#/s/${id}/side`, "list", T.details, view === "side") : null,
      this.host.me.session ? null : tab("#/status", "gauge", T.status, view === "status"),
    );
  }
}
