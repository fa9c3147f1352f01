// What can be done with a whole session: rename, fork, archive, delete, export, share.
import { fill, h } from "../dom.js";
import { api, BASE, sessionPath } from "../model/api.js";
import { isAtLeast } from "../model/host.js";
import { qrSvg } from "../text/qr.js";
import { visible, visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { signOut } from "./sign_in.js";
import { button, confirmed, dialog, openMenu, toast } from "./parts.js";

const LIFETIMES = [3600, 8 * 3600, 24 * 3600, 7 * 86400, 30 * 86400];

/** The menu of a session: only what its role allows. */
export function sessionMenu(anchor, app, session) {
  const { host } = app;
  const { role } = session;
  const isGuest = Boolean(host.me.session);
  const archived = host.find(session.id)?.archived;
  const canWrite = isAtLeast(role, "editor");
  const isAdmin = isAtLeast(role, "admin");
  openMenu(
    anchor,
    [
      canWrite ? { text: T.rename, glyph: "pencil", act: () => renameDialog(host, session, isAdmin && !isGuest) } : null,
      canWrite && !isGuest ? { text: T.fork, glyph: "fork", act: () => forkSession(host, session) } : null,
      isAdmin && !isGuest ? { text: T.share, glyph: "link", act: () => shareDialog(host, session) } : null,
      { text: T.exportMarkdown, glyph: "out", act: () => download(session, "markdown", "md") },
      { text: T.exportHtml, glyph: "out", act: () => download(session, "html", "html") },
      { text: T.exportLog, glyph: "out", act: () => download(session, "jsonl", "jsonl") },
      isAdmin ? { text: archived ? T.unarchive : T.archive, glyph: "inbox", act: () => archiveSession(host, session, !archived) } : null,
      isGuest ? { text: T.whoAmI, glyph: "people", act: () => app.whoAmI() } : null,
      isGuest ? { text: T.signOut, glyph: "out", act: () => signOut() } : null,
      isAdmin && !isGuest ? { text: T.delete, glyph: "trash", danger: true, act: () => deleteSession(host, session) } : null,
    ],
    T.sessionMenu,
  );
}

const failed = (error) => toast(error.message, "bad");

function renameDialog(host, session, canName) {
  const summary = host.find(session.id) || {};
  const title = h("input", { id: "new-title", value: summary.title || "", maxlength: "200", autocomplete: "off" });
  const name = h("input", { id: "new-name", value: summary.name || "", maxlength: "100", autocomplete: "off" });
  return dialog(T.rename, (close) =>
    h(
      "form.box-body",
      {
        onsubmit: async (event) => {
          event.preventDefault();
          try {
            if (title.value.trim() && title.value.trim() !== summary.title) {
              await host.rpc.call("session/set_title", { sessionId: session.id, title: title.value.trim() });
            }
            if (canName && (name.value.trim() || null) !== (summary.name || null)) {
              await api("POST", `${sessionPath(session.id)}/name`, { name: name.value.trim() || null });
            }
            await host.fetchSession(session.id);
            close();
          } catch (error) {
            failed(error);
          }
        },
      },
      h("label.field", { for: "new-title" }, h("span", null, T.title), title),
      canName ? h("label.field", { for: "new-name" }, h("span", null, T.shortName), h("span.dim", null, T.shortNameNote), name) : null,
      h("div.choose", null, h("button.btn.main", { type: "submit" }, T.save), button(T.cancel, () => close(), { kind: "bare" })),
    ),
  );
}

async function forkSession(host, session) {
  try {
    const copy = await api("POST", `${sessionPath(session.id)}/fork`, {});
    await host.fetchSession(copy.sessionId);
    location.hash = `#/s/${copy.sessionId}`;
    toast(T.forked);
  } catch (error) {
    failed(error);
  }
}

async function archiveSession(host, session, archive) {
  try {
    await host.rpc.call(archive ? "session/archive" : "session/unarchive", { sessionId: session.id });
    await host.fetchSession(session.id);
    toast(archive ? T.archivedNow : T.unarchivedNow);
    if (archive) location.hash = "#/";
  } catch (error) {
    failed(error);
  }
}

async function deleteSession(host, session) {
  if (!(await confirmed(T.deleteTitle, T.deleteText, T.delete))) return;
  try {
    await api("DELETE", sessionPath(session.id));
    host.refresh();
    toast(T.deleted);
    location.hash = "#/";
  } catch (error) {
    failed(error);
  }
}

function download(session, format, suffix) {
  const anchor = h("a", { download: `session-${session.id.slice(0, 8)}.${suffix}` });
  anchor.href = `${BASE}api/${sessionPath(session.id)}/export?format=${format}`;
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
}

// --- sharing ------------------------------------------------------------------------------------------------------------

/** The address that opens a session in a browser. What follows # is not sent to any server. */
export function linkAddress(token) {
  return `${location.origin}${BASE.replace(/link\/[0-9a-z]{10}\/$/, "")}#token=${token}`;
}

/** The dialog for links and members. */
export function shareDialog(host, session) {
  return dialog(T.share, () => new ShareForm(host, session).element, { wide: true });
}

class ShareForm {
  constructor(host, session) {
    this.host = host;
    this.session = session;
    this.role = h("select", { id: "share-role" }, h("option", { value: "viewer" }, T.mayRead), h("option", { value: "editor" }, T.mayWrite));
    this.lifetime = h("select", { id: "share-time" }, LIFETIMES.map((seconds) => h("option", { value: String(seconds), selected: seconds === 8 * 3600 }, T.lifetimes[seconds])));
    this.name = h("input", { id: "share-name", maxlength: "60", placeholder: T.guestName, autocomplete: "off" });
    this.made = h("div.made", { "aria-live": "polite" });
    this.list = h("ul.shares", { "aria-label": T.links });
    this.user = h("input", { id: "member-name", maxlength: "128", autocomplete: "off", required: true });
    this.userRole = h("select", { id: "member-role" }, ["viewer", "editor", "admin"].map((role) => h("option", { value: role }, T.roles[role])), h("option", { value: "" }, T.removeMember));
    this.element = h(
      "div.box-body",
      null,
      h(
        "form",
        { onsubmit: (event) => (event.preventDefault(), this.#create()) },
        h("p.soft", null, T.linkNote),
        h("div.row-fields", null, h("label.field", { for: "share-role" }, h("span", null, T.whoHasIt), this.role), h("label.field", { for: "share-time" }, h("span", null, T.validFor), this.lifetime), h("label.field", { for: "share-name" }, h("span", null, T.guest), this.name)),
        h("button.btn.main", { type: "submit" }, T.makeLink),
      ),
      this.made,
      h("h3", null, T.links),
      this.list,
      h("h3", null, T.membersTitle),
      h(
        "form",
        { onsubmit: (event) => (event.preventDefault(), this.#setMember()) },
        h("p.soft", null, T.membersNote),
        h("div.row-fields", null, h("label.field", { for: "member-name" }, h("span", null, T.user), this.user), h("label.field", { for: "member-role" }, h("span", null, T.role), this.userRole)),
        h("button.btn", { type: "submit" }, T.setRole),
      ),
    );
    this.#showList();
  }

  async #create() {
    const body = { role: this.role.value, seconds: Number(this.lifetime.value), name: this.name.value.trim().replace(/[^\w.@+|:/=-]+/g, "-") };
    try {
      const answer = await api("POST", `${sessionPath(this.session.id)}/shares`, body);
      const address = linkAddress(answer.token);
      const field = h("input.mono", { value: address, readonly: true, "aria-label": T.link, onfocus: (event) => event.target.select() });
      const copy = button(T.copy, async () => {
        await navigator.clipboard?.writeText(address);
        toast(T.linkCopied);
      });
      fill(this.made, h("div.link-row", null, field, copy), h("div.qr", { role: "img", "aria-label": T.qrCode }, qrSvg(address)), h("p.dim", null, T.linkOnce));
      await this.#showList();
    } catch (error) {
      failed(error);
    }
  }

  async #showList() {
    let shares = [];
    try {
      ({ shares } = await api("GET", `${sessionPath(this.session.id)}/shares`));
    } catch (error) {
      fill(this.list, h("li.dim", null, visible(error.message)));
      return;
    }
    const valid = shares.filter((share) => !share.revoked && !(share.expires * 1000 < Date.now()));
    fill(
      this.list,
      valid.map((share) =>
        h("li", null, h("span.clip.grow", null, visibleLine(share.user, 60)), h("span.dim", null, `${T.roles[share.role]} · ${T.until(new Date(share.expires * 1000))}`), button(T.revoke, () => this.#revoke(share), { kind: "bare danger" })),
      ),
      valid.length ? null : h("li.dim", null, T.noLinks),
    );
  }

  async #revoke(share) {
    try {
      await api("DELETE", `${sessionPath(this.session.id)}/shares/${encodeURIComponent(share.id)}`);
      toast(T.revoked);
      await this.#showList();
    } catch (error) {
      failed(error);
    }
  }

  async #setMember() {
    try {
      const answer = await api("POST", `${sessionPath(this.session.id)}/members`, { user: this.user.value.trim(), role: this.userRole.value || null });
      toast(answer.token === null ? T.memberWithoutToken : T.memberSet);
    } catch (error) {
      failed(error);
    }
  }
}

