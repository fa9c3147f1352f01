// All sessions, with what needs somebody first; and the passages that a search found.
import { fill, h, memory } from "../dom.js";
import { icon } from "../icons.js";
import { api } from "../model/api.js";
import { isAtLeast } from "../model/host.js";
import { visible, visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { describeSession, groupSessions, nameOf, stateOfSession } from "./frame.js";
import { ago, button, face, iconButton } from "./parts.js";

const FILTERS = ["all", "mine", "running", "unread", "archived"];

// On a phone the frame has no place for it.
function accountButton(app) {
  const made = iconButton("dots", T.account, () => app.accountMenu(made), { class: "show-s", "aria-haspopup": "menu", "aria-expanded": "false" });
  return made;
}

/** The view of all sessions. */
export class InboxView {
  constructor(app) {
    this.app = app;
    this.host = app.host;
    this.filter = memory.get("filter", "all");
    this.agent = "";
    const canOpen = isAtLeast(this.host.me.role, "editor") && !this.host.me.session;
    this.counts = h("p.place.clip");
    this.filters = h("div.filters", { role: "group", "aria-label": T.filters });
    this.find = h("input", { type: "search", placeholder: T.searchAll, "aria-label": T.searchAll, onkeydown: (event) => event.key === "Enter" && this.find.value.trim() && (location.hash = `#/search/${encodeURIComponent(this.find.value.trim())}`) });
    this.column = h("div.col");
    this.element = h(
      "main",
      { id: "main" },
      h("header.head", null, h("div.titles.grow", null, h("h1", null, T.sessions), this.counts), canOpen ? button(T.newSession, () => app.newSession(), { glyph: "plus", key: "n", kind: "new" }) : null, accountButton(app)),
      h("div.page", { tabindex: "-1" }, h("div.page-top", null, this.filters, h("div.find.show-s", null, icon("search"), this.find)), this.column),
    );
    this.end = this.host.on("sessions", () => this.update());
    this.update();
  }

  destroy() {
    this.end();
  }

  update() {
    const { host } = this;
    const chosen = host.sessions.filter((session) => this.#matches(session));
    const groups = groupSessions(chosen, host);
    const rest = [...groups.done, ...groups.rest, ...(this.filter === "archived" ? groups.archived : [])];
    this.counts.textContent = T.inboxCounts(groups.ask.length, groups.work.length, rest.length);
    this.#showFilters();
    const part = (title, sessions, empty = "") =>
      sessions.length || empty ? h("section", null, h("h2", null, title, h("span.num", null, String(sessions.length))), sessions.length ? h("ul.rows", null, sessions.slice(0, 500).map((session) => this.#row(session))) : h("p.dim", null, empty)) : null;
    fill(
      this.column,
      part(T.needsYou, groups.ask),
      part(T.working, groups.work),
      part(T.doneSince, groups.done),
      part(T.earlier, this.filter === "archived" ? groups.archived : groups.rest),
      chosen.length ? null : h("div.empty", null, h("h2", null, host.sessions.length ? T.noMatches : T.noSessions), h("p.soft", null, host.sessions.length ? T.noMatchesNext : T.noSessionsNext)),
    );
  }

  #matches(session) {
    if (this.agent && session.agent !== this.agent) return false;
    if (this.filter === "archived") return Boolean(session.archived);
    if (session.archived) return false;
    if (this.filter === "mine") return session.role === "admin";
    if (this.filter === "running") return session.state !== "idle";
    if (this.filter === "unread") return this.host.isUnread(session);
    return true;
  }

  #showFilters() {
    const agents = [...new Set(this.host.sessions.map((session) => session.agent).filter(Boolean))].sort();
    const choose = (name) => {
      this.filter = name;
      memory.set("filter", name);
      this.update();
    };
    const select = h("select", { "aria-label": T.agentFilter, onchange: (event) => ((this.agent = event.target.value), this.update()) }, h("option", { value: "" }, T.allAgents), agents.map((agent) => h("option", { value: agent, selected: agent === this.agent }, visibleLine(agent, 40))));
    fill(
      this.filters,
      FILTERS.map((name) => h("button.pill", { type: "button", "aria-pressed": String(this.filter === name), onclick: () => choose(name) }, T.filterNames[name])),
      agents.length > 1 ? select : null,
    );
  }

  #row(session) {
    const state = stateOfSession(session, this.host);
    const people = [...new Map((session.members || []).map((member) => [member.user, member])).values()].slice(0, 4);
    return h(
      "li",
      { class: state === "ask" ? "asking-row" : "" },
      h(
        "a",
        { href: `#/s/${session.sessionId}` },
        h("span.dot", { class: state, role: "img", "aria-label": T.states[state] }),
        h("span.name.clip", null, nameOf(session)),
        h("span.what.clip", { class: state === "ask" ? "ask" : "" }, session.name && session.title && state !== "ask" ? `${visibleLine(session.title, 100)} · ${describeSession(session, this.host)}` : describeSession(session, this.host)),
        h("span.people", null, people.map((member) => face(member.user, member.state))),
        h("span.when.num", null, ago(session.updatedAt)),
      ),
    );
  }
}

/** What a search over all transcripts found. */
export class SearchView {
  constructor(app, words) {
    this.host = app.host;
    this.column = h("div.col", { "aria-busy": "true" }, h("p.dim", null, T.searching));
    this.input = h("input", { type: "search", value: words, "aria-label": T.searchAll, onkeydown: (event) => event.key === "Enter" && (location.hash = `#/search/${encodeURIComponent(this.input.value.trim())}`) });
    this.element = h(
      "main",
      { id: "main" },
      h("header.head", null, h("a.icon", { href: "#/", "aria-label": T.allSessions }, icon("back")), h("div.titles.grow", null, h("h1.clip", null, T.searchFor(visibleLine(words, 60))))),
      h("div.page", { tabindex: "-1" }, h("div.page-top", null, h("div.find", null, icon("search"), this.input)), this.column),
    );
    this.#search(words);
  }

  destroy() {}

  async #search(words) {
    let hits = [];
    try {
      ({ hits } = await api("GET", `search?limit=100&q=${encodeURIComponent(words)}`));
    } catch (error) {
      fill(this.column, h("p", { role: "alert" }, visible(error.message)));
      return;
    }
    this.column.removeAttribute("aria-busy");
    const bySession = new Map();
    for (const hit of hits) bySession.set(hit.sessionId, [...(bySession.get(hit.sessionId) || []), hit]);
    fill(
      this.column,
      hits.length ? null : h("div.empty", null, h("h2", null, T.nothingFound), h("p.soft", null, T.nothingFoundNext)),
      [...bySession].map(([id, found]) => {
        const session = this.host.find(id) || { sessionId: id };
        return h("section", null, h("h2", null, h("a", { href: `#/s/${id}` }, nameOf(session)), h("span.num", null, String(found.length))), h("ul.rows.hits", null, found.slice(0, 5).map((hit) => h("li", null, h("a", { href: `#/s/${id}/at/${hit.seq}` }, h("span.dim", null, T.hitRoles[hit.role] || hit.role), h("span.what", null, snippet(hit)))))));
      }),
    );
  }
}

function snippet({ snippet: text, marks }) {
  const nodes = [];
  let at = 0;
  for (const [from, to] of marks) {
    nodes.push(visible(text.slice(at, from)), h("mark", null, visible(text.slice(from, to))));
    at = to;
  }
  nodes.push(visible(text.slice(at)));
  return nodes;
}
