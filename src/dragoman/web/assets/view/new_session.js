// Open a new session: which agent, in which folder.
import { fill, h, memory } from "../dom.js";
import { api, socketAddress } from "../model/api.js";
import { initializeParams } from "../model/host.js";
import { Rpc } from "../model/rpc.js";
import { visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { button, dialog } from "./parts.js";

/** The dialog. It ends with the id of the new session. */
export function newSessionDialog(host) {
  return dialog(T.newSession, (close) => new NewSessionForm(host, close).element);
}

class NewSessionForm {
  #asked = 0;

  constructor(host, close) {
    this.host = host;
    this.close = close;
    const { me } = host;
    this.agent = h("select", { id: "new-agent" }, me.agents.map((name) => h("option", { value: name, selected: name === memory.get("agent") }, visibleLine(name, 60))));
    const recent = [...new Set(host.sessions.map((session) => session.cwd).filter(Boolean))];
    this.folder = h("input.mono", {
      id: "new-folder",
      required: true,
      autocomplete: "off",
      spellcheck: "false",
      value: recent[0] || me.roots?.[0] || "",
      "aria-controls": "folder-list",
      oninput: () => this.#suggest(),
      onfocus: () => this.#suggest(),
    });
    this.list = h("ul.folders", { id: "folder-list", "aria-label": T.folders });
    this.error = h("p.bad", { role: "alert" });
    this.submit = h("button.btn.main", { type: "submit" }, T.open);
    this.element = h(
      "form.box-body",
      { onsubmit: (event) => (event.preventDefault(), this.#open()) },
      h("label.field", { for: "new-agent" }, h("span", null, T.agent), this.agent),
      h("label.field", { for: "new-folder" }, h("span", null, T.folder), h("span.dim", null, me.roots ? T.folderNote(me.roots.map((root) => visibleLine(root, 80)).join(", ")) : T.folderNoteOwner), this.folder),
      this.list,
      h("p.soft", null, T.settingsLater),
      this.error,
      h("div.choose", null, this.submit, button(T.cancel, () => close(), { kind: "bare" })),
    );
    this.#suggest();
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

  async #open() {
    this.error.textContent = "";
    this.submit.disabled = true;
    this.submit.textContent = T.opening;
    try {
      const id = await openSession(this.host, this.agent.value, this.folder.value.trim());
      memory.set("agent", this.agent.value);
      this.close(id);
    } catch (error) {
      this.error.textContent = error.message;
    }
    this.submit.disabled = false;
    this.submit.textContent = T.open;
  }
}

// A connection is for one agent: another agent than the first gets one of its own, until the session is open.
async function openSession(host, agent, cwd) {
  const params = { cwd, mcpServers: [] };
  if (agent === host.me.agents[0] && host.state === "live") {
    return (await host.rpc.call("session/new", params)).sessionId;
  }
  const rpc = await new Promise((resolve, reject) => {
    const made = new Rpc(socketAddress(agent), {
      serve: (method) => !method.includes("/") || method.startsWith("_"),
      onopen: () => resolve(made),
      onclose: () => reject(new Error(T.lost)),
    });
  });
  try {
    await rpc.call("initialize", initializeParams());
    return (await rpc.call("session/new", params)).sessionId;
  } finally {
    rpc.close();
  }
}
