// What stands beside a session: plan, changes, people, context and cost. On narrow screens it is a view of its own.
import { fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { visible, visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { face, shortPath } from "./parts.js";
import { cachedChange } from "./tool_card.js";

const PLAN_ICONS = { completed: "check", in_progress: "spin", pending: "circle" };

/** The side of a session. */
export class SidePanel {
  constructor(session, view) {
    this.session = session;
    this.view = view;
    this.time = h("span.num"); // of the turn; the session sets it together with the composer's
    this.element = h("aside.side", { id: "side", "aria-label": T.details });
    session.on("side", () => this.update());
    session.on("members", () => this.update());
    session.on("turn", () => this.update());
  }

  toggle() {
    document.querySelector(".app")?.classList.toggle("no-side");
  }

  update() {
    const { session } = this;
    if (session.loading) return;
    fill(this.element, this.#plan(), this.#changes(), this.#people(), this.#context());
  }

  #plan() {
    const { plan } = this.session.transcript;
    if (!plan.length) return null;
    const done = plan.filter((entry) => entry.status === "completed").length;
    return section(
      T.plan,
      T.of(done, plan.length),
      h(
        "ol.plan",
        null,
        plan.slice(0, 100).map((entry) =>
          h("li", { class: { completed: "done", in_progress: "now" }[entry.status] || "" }, icon(PLAN_ICONS[entry.status] || "circle", entry.status === "in_progress" ? "spin" : ""), h("span", null, visible(entry.content || ""), h("span.vh", null, ` (${T.planStates[entry.status] || ""})`))),
        ),
      ),
    );
  }

  // Each file with its last change: a diff of a tool call that was refused or failed did not happen.
  #changes() {
    const files = new Map();
    for (const item of this.session.transcript.tools.values()) {
      if (item.call.status === "failed" || item.stopped) continue;
      for (const block of item.call.content || []) {
        if (block.type !== "diff") continue;
        const change = cachedChange(block);
        const file = files.get(change.path) || { added: 0, removed: 0, item };
        files.set(change.path, { added: file.added + change.added, removed: file.removed + change.removed, item });
      }
    }
    if (!files.size) return null;
    const rows = [...files].slice(-60).map(([path, file]) =>
      h(
        "li",
        null,
        h("button.link.path.clip.grow", { type: "button", title: visible(path), onclick: () => this.#show(file.item) }, shortPath(path, this.session.cwd)),
        h("span.add.num", null, `+${file.added}`),
        file.removed ? h("span.del.num", null, `−${file.removed}`) : null,
      ),
    );
    return section(T.changes, String(files.size), h("ul.files", null, rows));
  }

  #show(item) {
    item.opened = true;
    item.version += 1;
    location.hash = `#/s/${this.session.id}`;
    this.view.list.scrollTo(this.session.transcript.items.indexOf(item));
  }

  #people() {
    const { members, host } = this.session;
    if (!members.length) return null;
    let hasOwn = false;
    const isOwn = (member) => !hasOwn && member.user === host.me.user && member.client === "dragoman-web" && (hasOwn = true);
    const rows = members.slice(0, 50).map((member) =>
      h(
        "li",
        null,
        face(member.user, member.state),
        h("span.clip", null, visibleLine(member.user, 60)),
        h("span.dim", null, isOwn(member) ? T.youMark : T.presence[member.state] || ""),
        h("span.role", null, `${T.roles[member.role] || member.role}${member.client && member.client !== "dragoman-web" ? ` · ${visibleLine(member.client, 24)}` : ""}`),
      ),
    );
    return section(T.hereTitle, String(members.length), h("ul.who", null, rows));
  }

  #context() {
    const { transcript, workspace, cwd } = this.session;
    const { usage, turnUsage } = transcript;
    const facts = [];
    let meter = null;
    if (usage?.size) {
      const share = Math.min(1, usage.used / usage.size);
      meter = h("meter.meter", { min: "0", max: "1", value: share, "aria-label": T.context }, `${Math.round(share * 100)} %`);
      facts.push([T.tokens, T.of(short(usage.used), short(usage.size))]);
    }
    if (usage?.cost) facts.push([T.cost, `${Number(usage.cost.amount).toFixed(2)} ${visibleLine(usage.cost.currency, 5)}`]);
    if (turnUsage?.totalTokens) facts.push([T.lastTurn, T.tokenCount(short(turnUsage.totalTokens))]);
    if (transcript.openTurn) facts.push([T.turn, this.time]);
    if (workspace?.files) facts.push([T.filesFrom, workspace.files === "host" ? T.theHost : visibleLine(workspace.files.user || "", 40)]);
    if (cwd) facts.push([T.folder, visible(cwd)]);
    facts.push([T.role, T.roles[this.session.role] || this.session.role]);
    const value = usage?.size ? `${Math.round((100 * usage.used) / usage.size)} %` : "";
    return section(usage ? T.context : T.session, value, meter, h("dl.facts", null, facts.map(([name, text]) => [h("dt", null, name), h("dd", null, text)])));
  }
}

function short(count) {
  return count >= 1000 ? `${Math.round(count / 1000)}k` : String(count);
}

function section(title, value, ...content) {
  return h("section", null, h("h2", null, title, h("span.v.num", null, value)), content);
}
