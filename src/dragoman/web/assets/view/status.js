// The state of the host: agents, store, limits, counters; users and tokens for the owner.
import { fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { api, BASE } from "../model/api.js";
import { visible, visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { button, bytes, confirmed, duration, toast } from "./parts.js";

/** The view of the host. */
export class StatusView {
  constructor(app) {
    this.host = app.host;
    this.column = h("div.col", { "aria-busy": "true" }, h("p.dim", null, T.loading));
    this.element = h(
      "main",
      { id: "main" },
      h("header.head", null, h("div.titles.grow", null, h("h1", null, T.hostStatus), h("p.place", null, location.host)), this.host.me.session ? null : h("a.btn", { href: `${BASE}metrics`, target: "_blank", rel: "noopener" }, T.metrics)),
      h("div.page", { tabindex: "-1" }, this.column),
    );
    this.timer = setInterval(() => document.hidden || this.#load(), 10000);
    this.#load();
  }

  destroy() {
    clearInterval(this.timer);
  }

  async #load() {
    let status;
    try {
      status = await api("GET", "status");
    } catch (error) {
      fill(this.column, h("div.empty", { role: "alert" }, h("h2", null, T.noStatus), h("p.soft", null, visible(error.message))));
      return;
    }
    this.column.removeAttribute("aria-busy");
    fill(this.column, this.#facts(status), this.#agents(status), this.#limits(status), status.tokens ? this.#tokens(status.tokens) : null);
  }

  #facts(status) {
    const facts = [
      [T.version, status.version],
      [T.upFor, duration(status.uptime)],
      [T.store, status.storeFault ? visible(status.storeFault) : T.storeWorks],
      [T.awake, T.of(status.awake, status.sessions)],
      [T.peopleNow, String(status.people)],
      [T.connections, String(status.connections)],
      [T.prompts, String(status.counters.prompts)],
      [T.agentStarts, T.startsAndCrashes(status.counters.agentStarts, status.counters.agentCrashes)],
    ];
    const tone = status.storeFault ? "bad" : "ok";
    return h("section", null, h("h2", null, icon(status.storeFault ? "warn" : "check", tone), status.storeFault ? T.hostFails : T.hostWorks), h("dl.tiles", null, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))));
  }

  #agents({ agents }) {
    const rows = agents.map((agent) => h("tr", null, h("th", { scope: "row" }, visibleLine(agent.name, 60)), h("td", null, visibleLine(agent.version || "", 40) || h("span.dim", null, T.notKnown)), h("td.mono", null, agent.path), h("td", null, visibleLine((agent.logins || []).join(", "), 100) || h("span.dim", null, T.none))));
    return table(T.agents, [T.name, T.version, T.address, T.logins], rows);
  }

  #limits({ limits }) {
    const rows = Object.entries(limits).map(([name, value]) => h("tr", null, h("th.mono", { scope: "row" }, name), h("td.num", null, ["body", "frame", "headers", "buffered", "kept", "unfinished", "unfinished_all"].includes(name) ? bytes(value) : String(value))));
    return h("details.limits", null, h("summary", null, icon("chevron", "chev"), T.limits), table(T.limits, [T.name, T.value], rows, true));
  }

  #tokens(tokens) {
    const rows = tokens.map((token) =>
      h(
        "tr",
        null,
        h("th", { scope: "row" }, visibleLine(token.user, 60)),
        h("td", null, T.roles[token.role] || token.role),
        h("td", null, token.session ? T.shareLink : visibleLine(token.label || T.token, 40)),
        h("td", null, token.state === "valid" ? (token.expires ? T.until(new Date(token.expires * 1000)) : T.noExpiry) : T.tokenStates[token.state]),
        h("td", null, token.used ? new Date(token.used * 1000).toLocaleDateString("en-GB") : h("span.dim", null, T.never)),
        h("td", null, token.state === "valid" ? button(T.revoke, () => this.#revoke(token), { kind: "bare danger", "aria-label": T.revokeOf(visibleLine(token.user, 60)) }) : null),
      ),
    );
    return h("div", null, table(T.usersAndTokens, [T.user, T.role, T.kind, T.valid, T.lastUse, h("span.vh", null, T.revoke)], rows), h("p.soft", null, T.createTokenHint));
  }

  async #revoke(token) {
    if (!(await confirmed(T.revokeTitle, T.revokeText(visibleLine(token.user, 60)), T.revoke))) return;
    try {
      await api("DELETE", `tokens/${encodeURIComponent(token.id)}`);
      toast(T.revoked);
    } catch (error) {
      toast(error.message, "bad");
    }
    this.#load();
  }
}

function table(title, names, rows, isInner = false) {
  const grid = h("div.table", { tabindex: "0", role: "group", "aria-label": title }, h("table", null, h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, rows)));
  return isInner ? grid : h("section", null, h("h2", null, title, h("span.num", null, String(rows.length))), grid);
}
