// Open a new session: which agent, in which folder, with which mode, model and other settings.
import { fill, h, memory } from "../dom.js";
import { api } from "../model/api.js";
import { openDraft } from "../model/draft_session.js";
import { isAtLeast } from "../model/host.js";
import { ConnectionLost } from "../model/rpc.js";
import { visible, visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { button, dialog } from "./parts.js";

/** The dialog. It ends with the id of the new session. */
export async function newSessionDialog(host) {
  let form;
  const id = await dialog(T.newSession, (close) => (form = new NewSessionForm(host, close)).element);
  if (!id) form.dropDraft();
  return id;
}

/** Whether the host would accept a folder: one that it refuses is not suggested. */
function isBelow(folder, roots) {
  return !roots || roots.some((root) => folder === root || folder.startsWith(root.endsWith("/") ? root : `${root}/`));
}

function folderNote({ roots, role }) {
  if (!roots) return T.folderNoteOwner;
  if (!roots.length) return isAtLeast(role, "admin") ? T.folderNoteNoneAdmin : T.folderNoteNone;
  return T.folderNote(roots.map((root) => visibleLine(root, 80)).join(", "));
}

class NewSessionForm {
  #asked = 0;
  #draft = null; // the session, once it had to be opened to learn its settings
  #values = new Map(); // what was chosen, by the id of the setting

  constructor(host, close) {
    this.host = host;
    this.close = close;
    const { me } = host;
    this.agent = h("select", { id: "new-agent", onchange: () => this.#onPlaceChange() }, me.agents.map((name) => h("option", { value: name, selected: name === memory.get("agent") }, visibleLine(name, 60))));
    const recent = host.sessions.map((session) => session.cwd).find((folder) => folder && isBelow(folder, me.roots));
    this.folder = h("input.mono", {
      id: "new-folder",
      required: true,
      autocomplete: "off",
      spellcheck: "false",
      value: recent || me.roots?.[0] || "",
      "aria-controls": "folder-list",
      oninput: () => this.#suggest(),
      onfocus: () => this.#suggest(),
      onchange: () => this.#onPlaceChange(),
    });
    this.settings = h("div.row-fields");
    this.list = h("ul.folders", { id: "folder-list", "aria-label": T.folders });
    this.error = h("p.bad", { role: "alert" });
    this.submit = h("button.btn.main", { type: "submit" }, T.open);
    this.element = h(
      "form.box-body",
      { onsubmit: (event) => (event.preventDefault(), this.#open()) },
      h("label.field", { for: "new-agent" }, h("span", null, T.agent), this.agent),
      h("label.field", { for: "new-folder" }, h("span", null, T.folder), h("span.dim", null, folderNote(me)), this.folder),
      this.list,
      this.settings,
      this.error,
      h("div.choose", null, this.submit, button(T.cancel, () => close(), { kind: "bare" })),
    );
    this.#suggest();
    this.#showSettings();
  }

  // An agent tells its settings when a session is open. Those of its last session here are shown until then.
  #showSettings() {
    const known = this.#draft?.settings || memory.get("settings", {})[this.agent.value];
    if (!known) {
      fill(this.settings, button(T.askSettings, () => this.#learnSettings(), { kind: "bare", glyph: "mode" }));
      return;
    }
    const fields = known.filter((setting) => setting.kind === "switch" || setting.choices.length > 1);
    fill(this.settings, fields.map((setting) => this.#field(setting)), fields.length ? null : h("p.soft", null, T.noSettings));
  }

  #field(setting) {
    const { id, kind, choices } = setting;
    const value = this.#values.get(id) ?? setting.value;
    const offered = kind === "switch" ? [{ value: true, name: T.on }, { value: false, name: T.off }] : choices;
    const options = offered.map((choice, at) => h("option", { value: String(at), selected: choice.value === value, title: visible(choice.description || "") }, visibleLine(String(choice.name), 60)));
    const select = h("select", { id: `new-setting-${id}`, onchange: () => this.#values.set(id, offered[select.value].value) }, options);
    return h("label.field", { for: select.id }, h("span", null, visibleLine(setting.name || T.mode, 40)), select);
  }

  #onPlaceChange() {
    this.#values.clear();
    this.dropDraft();
    this.#showSettings();
  }

  /** Delete the session that was opened only for its settings. */
  dropDraft() {
    this.#draft?.drop();
    this.#draft = null;
  }

  #learnSettings() {
    return this.#work(async () => {
      await this.#openDraft();
      this.#showSettings();
      this.settings.querySelector("select")?.focus();
    });
  }

  async #openDraft() {
    const agent = this.agent.value;
    this.#draft ||= await openDraft(this.host, agent, this.folder.value.trim());
    memory.set("settings", { ...memory.get("settings", {}), [agent]: this.#draft.settings });
  }

  async #suggest() {
    this.#asked += 1;
    const asked = this.#asked;
    let folders = [];
    try {
      ({ folders } = await api("GET", `folders?path=${encodeURIComponent(this.folder.value)}`));
    } catch {
      // a path that cannot be read has no suggestions
    }
    if (asked !== this.#asked) return;
    const choose = (path) => {
      this.folder.value = path;
      this.folder.focus();
      this.#suggest();
    };
    fill(this.list, folders.slice(0, 30).map((path) => h("li", null, h("button.link.mono.clip", { type: "button", onclick: () => choose(path) }, visibleLine(path, 200)))));
  }

  #open() {
    return this.#work(async () => {
      await this.#openDraft();
      await this.#draft.choose(this.#values);
      this.#draft.finish();
      memory.set("agent", this.agent.value);
      this.close(this.#draft.id);
    });
  }

  async #work(act) {
    this.error.textContent = "";
    this.submit.disabled = true;
    this.submit.textContent = T.opening;
    try {
      await act();
    } catch (error) {
      this.error.textContent = error instanceof ConnectionLost ? T.lost : visible(error.message);
    }
    this.submit.disabled = false;
    this.submit.textContent = T.open;
  }
}
