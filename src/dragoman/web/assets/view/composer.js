// Where one writes: text, files and pictures, completion of /commands and @files, history, settings of the session.
import { fill, h, memory } from "../dom.js";
import { icon } from "../icons.js";
import { settingsOf } from "../model/settings.js";
import { visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { bytes, face, iconButton, openMenu, toast } from "./parts.js";

// The largest file that goes into a prompt: a message of the host has at most 32 MiB, and base64 adds a third.
const MAX_FILE = 8 * 1024 * 1024;
const MAX_FILES = 10;

// Prompts that are remembered on this device.
const HISTORY = 100;

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** The composer of one session. */
export class Composer {
  #files = [];
  #at = -1; // place in the history; -1 is the text of now
  #draft = "";
  #choices = [];
  #chosen = 0;
  #token = null;
  #asked = 0;

  constructor(session, { onsent }) {
    this.session = session;
    this.onsent = onsent;
    const listId = "completions";
    this.input = h("textarea", {
      rows: "1",
      id: "composer",
      "aria-label": T.prompt,
      placeholder: T.writeHere,
      autocomplete: "off",
      enterkeyhint: "send",
      "aria-autocomplete": "list",
      "aria-controls": listId,
      oninput: () => this.#onInput(),
      onkeydown: (event) => this.#onKey(event),
      onpaste: (event) => this.#takeFiles(event.clipboardData, event),
    });
    this.list = h("ul.completions", { id: listId, role: "listbox", "aria-label": T.completions, hidden: true });
    this.chips = h("ul.chips", { "aria-label": T.attached, hidden: true });
    this.queue = h("ul.queue", { "aria-label": T.queue });
    this.picks = h("div.picks");
    this.time = h("span.num.dim");
    this.stop = iconButton("stop", T.stopTurn, () => session.cancel(), { class: "stop" });
    this.send = h("button.send", { type: "button", "aria-label": T.send, title: T.send, onclick: () => this.submit() }, icon("send"));
    const picker = h("input.vh", { type: "file", multiple: true, "aria-label": T.attach, tabindex: "-1", onchange: (event) => this.#addFiles([...event.target.files]) });
    this.box = h(
      "div.composer",
      {
        ondragover: (event) => event.preventDefault(),
        ondrop: (event) => this.#takeFiles(event.dataTransfer, event),
      },
      this.list,
      this.chips,
      this.input,
      h("div.bar", null, iconButton("plus", T.attach, () => picker.click()), picker, this.picks, h("span.spring"), this.time, this.stop, this.send),
    );
    this.reading = h("p.reading", null, T.readsAlong);
    this.element = h("div.compose", null, this.queue, this.box, this.reading);
    this.input.value = memory.get("drafts", {})[session.id] || "";
    session.on("queue", () => this.update());
    session.on("turn", () => this.update());
    session.on("side", () => this.update());
    session.on("role", () => this.update());
    session.on("failed", (failure) => this.#restore(failure));
    this.update();
  }

  focus() {
    this.input.focus();
  }

  // --- what is shown ---------------------------------------------------------------------------------------------------

  update() {
    const { session } = this;
    const live = session.host.state === "live" && !session.closed;
    this.box.hidden = !session.canWrite || Boolean(session.closed);
    this.reading.hidden = session.canWrite || Boolean(session.closed);
    this.stop.hidden = !session.isRunning || !session.canWrite;
    this.send.disabled = !live;
    this.input.placeholder = !live ? T.waitsForConnection : session.isRunning ? T.goesIntoQueue : T.writeHere;
    this.#showQueue();
    this.#showPicks();
  }

  #showQueue() {
    const { session } = this;
    const me = session.host.me.user;
    const known = new Set(session.waiting.map((each) => each.promptId));
    const own = session.sent.filter((sent) => (sent.state === "sending" || sent.state === "unknown") && !known.has(sent.promptId));
    const rows = session.waiting.map((each, at) =>
      h(
        "li",
        null,
        h("span.pos.num", null, String(at + 1)),
        face(each.user),
        h("span.clip.grow", null, `${visibleLine(each.user, 40)}: ${visibleLine(each.preview, 120)}`),
        each.user === me || session.role === "admin" ? iconButton("cross", T.takeBack, () => this.#withdraw(each)) : null,
      ),
    );
    const sending = own.map((sent) => h("li.dim", null, icon("spin", "spin"), h("span.clip.grow", null, `${sent.state === "unknown" ? T.sentUnknown : T.sending} ${visibleLine(sent.text, 100)}`)));
    fill(this.queue, rows, sending);
    this.queue.hidden = !rows.length && !sending.length;
  }

  async #withdraw(waiting) {
    try {
      const { prompt } = await this.session.withdraw(waiting.promptId);
      const text = (prompt || []).map((block) => block.text || "").join("");
      if (waiting.user === this.session.host.me.user && !this.input.value) this.#setText(text);
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  #showPicks() {
    const { modes, options } = this.session.transcript;
    fill(this.picks, settingsOf({ modes, configOptions: options }).map((setting) => this.#pickOf(setting)));
  }

  #pickOf(setting) {
    const { kind, category, value } = setting;
    const name = visibleLine(setting.name || T.mode, 40);
    const choices = kind === "switch" ? [{ value: true, name: T.on }, { value: false, name: T.off }] : setting.choices;
    const found = choices.find((choice) => choice.value === value);
    const label = visibleLine(found?.name || String(value ?? ""), 30);
    const entries = () =>
      choices.map((choice) => ({
        text: visibleLine(choice.name, 60),
        note: visibleLine(choice.description || "", 120),
        checked: choice.value === value,
        act: () => this.session.setSetting(setting, choice.value).catch((error) => toast(error.message, "bad")),
      }));
    return pick(["mode", "model"].includes(category) ? label : `${name}: ${label}`, name, entries);
  }

  // --- writing ---------------------------------------------------------------------------------------------------------

  #setText(text) {
    this.input.value = text;
    this.#saveDraft();
    this.input.setSelectionRange(text.length, text.length);
    this.#grow();
  }

  #saveDraft() {
    const drafts = memory.get("drafts", {});
    if (this.input.value) drafts[this.session.id] = this.input.value.slice(0, 20000);
    else delete drafts[this.session.id];
    memory.set("drafts", drafts);
  }

  // Browsers that cannot size a field by its content get the height here.
  #grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, 200)}px`;
  }

  #onInput() {
    this.#at = -1;
    this.#saveDraft();
    this.#grow();
    this.session.noteTyping();
    this.#complete();
  }

  #onKey(event) {
    if (event.isComposing) return;
    if (!this.list.hidden && this.#onListKey(event)) {
      event.preventDefault();
      return;
    }
    if (event.key === "Enter" && !event.shiftKey && !event.altKey && !isPhone()) {
      event.preventDefault();
      this.submit();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.submit();
    } else if (event.key === "ArrowUp" && this.input.selectionEnd === 0 && this.#recall(1)) event.preventDefault();
    else if (event.key === "ArrowDown" && this.#at >= 0 && this.#recall(-1)) event.preventDefault();
    else if (event.key === "Escape") {
      if (this.session.isRunning && event.shiftKey) this.session.cancel();
      this.input.blur();
      event.stopPropagation();
    }
  }

  #recall(step) {
    const prompts = memory.get("prompts", []);
    const next = this.#at + step;
    if (next >= prompts.length || next < -1) return false;
    if (this.#at === -1) this.#draft = this.input.value;
    this.#at = next;
    this.#setText(next === -1 ? this.#draft : prompts[next]);
    this.input.setSelectionRange(0, 0);
    return true;
  }

  submit() {
    const text = this.input.value.trim();
    const { session } = this;
    if ((!text && !this.#files.length) || session.host.state !== "live" || !session.canWrite) return;
    const blocks = [];
    if (text) blocks.push({ type: "text", text }, ...this.#mentioned(text));
    blocks.push(...this.#files.map((file) => file.block));
    if (text) memory.set("prompts", [text, ...memory.get("prompts", []).filter((each) => each !== text)].slice(0, HISTORY));
    this.#files = [];
    this.#at = -1;
    this.#setText("");
    this.#showChips();
    this.#closeList();
    this.onsent();
    session.prompt(blocks);
  }

  #restore({ error, blocks }) {
    const text = blocks.map((block) => (block.type === "text" ? block.text : "")).join("");
    if (!this.input.value) this.#setText(text);
    toast(error ? error.message : T.notSent, "bad");
  }

  // Files named with @ become links, so that the agent knows that they are files.
  #mentioned(text) {
    const cwd = this.session.cwd.replace(/\/$/, "");
    const names = new Set([...text.matchAll(/(?:^|\s)@([^\s@]+)/g)].map((match) => match[1].replace(/[.,;:!?)]+$/, "")));
    return [...names]
      .filter((name) => this.known?.has(name))
      .map((name) => ({ type: "resource_link", uri: `file://${encodeURI(`${cwd}/${name}`)}`, name }));
  }

  // --- files -------------------------------------------------------------------------------------------------------------

  #takeFiles(data, event) {
    const files = [...(data?.files || [])];
    if (!files.length) return;
    event.preventDefault();
    this.#addFiles(files);
  }

  async #addFiles(files) {
    const able = this.session.host.agent?.agentCapabilities?.promptCapabilities || {};
    for (const file of files.slice(0, MAX_FILES - this.#files.length)) {
      if (file.size > MAX_FILE) toast(T.fileTooLarge(visibleLine(file.name, 60), bytes(MAX_FILE)), "bad");
      else if (PICTURES.has(file.type) && !able.image) toast(T.noImages, "bad");
      else if (!PICTURES.has(file.type) && !able.embeddedContext) toast(T.noFiles, "bad");
      else this.#files.push({ name: file.name || T.image, size: file.size, block: await blockOf(file) });
    }
    this.#showChips();
    this.input.focus();
  }

  #showChips() {
    fill(
      this.chips,
      this.#files.map((file, at) =>
        h("li.chip", null, icon("file"), h("span.clip", null, visibleLine(file.name, 60)), h("span.dim", null, bytes(file.size)), iconButton("cross", T.removeFile(visibleLine(file.name, 60)), () => (this.#files.splice(at, 1), this.#showChips()))),
      ),
    );
    this.chips.hidden = !this.#files.length;
  }

  // --- completion ---------------------------------------------------------------------------------------------------------

  async #complete() {
    const before = this.input.value.slice(0, this.input.selectionEnd);
    const command = /^\/([\w:.-]*)$/.exec(before);
    const file = /(?:^|\s)@([^\s@]{0,200})$/.exec(before);
    this.#asked += 1;
    const asked = this.#asked;
    if (command) {
      const found = this.session.transcript.commands.filter((each) => each.name.toLowerCase().startsWith(command[1].toLowerCase())).slice(0, 12);
      this.#token = { start: 0, end: before.length };
      this.#showList(found.map((each) => ({ text: `/${each.name} `, label: `/${visibleLine(each.name, 60)}${each.input?.hint ? ` ${visibleLine(each.input.hint, 40)}` : ""}`, note: visibleLine(each.description || "", 120) })));
    } else if (file) {
      let files = [];
      try {
        files = await this.session.findFiles(file[1]);
      } catch {
        // the folder may be gone
      }
      if (asked !== this.#asked) return;
      this.known ||= new Set();
      for (const name of files) this.known.add(name);
      this.#token = { start: before.length - file[1].length - 1, end: before.length };
      this.#showList(files.slice(0, 12).map((name) => ({ text: `@${name} `, label: visibleLine(name, 200), note: "" })));
    } else this.#closeList();
  }

  #showList(choices) {
    this.#choices = choices;
    this.#chosen = 0;
    fill(
      this.list,
      choices.map((choice, at) =>
        h("li", { role: "option", id: `completion-${at}`, "aria-selected": String(at === 0), onmousedown: (event) => (event.preventDefault(), this.#accept(at)) }, h("span", null, choice.label), h("span.d", null, choice.note)),
      ),
    );
    this.list.hidden = !choices.length;
    if (choices.length) this.input.setAttribute("aria-activedescendant", "completion-0");
    else this.input.removeAttribute("aria-activedescendant");
  }

  #closeList() {
    if (!this.list.hidden) this.#showList([]);
  }

  #onListKey(event) {
    const count = this.#choices.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      this.#chosen = (this.#chosen + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
      [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === this.#chosen)));
      this.list.children[this.#chosen].scrollIntoView({ block: "nearest" });
      this.input.setAttribute("aria-activedescendant", `completion-${this.#chosen}`);
      return true;
    }
    if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey)) {
      // A whole command that is typed out is sent, not completed again.
      const typed = this.input.value.slice(this.#token.start, this.#token.end);
      if (event.key === "Enter" && this.#choices[this.#chosen].text.trim() === typed.trim()) return false;
      this.#accept(this.#chosen);
      return true;
    }
    if (event.key === "Escape") {
      this.#closeList();
      event.stopPropagation();
      return true;
    }
    return false;
  }

  #accept(at) {
    const { start, end } = this.#token;
    const { text } = this.#choices[at];
    this.input.setRangeText(text, start, end, "end");
    this.#closeList();
    this.#saveDraft();
    this.input.focus();
  }
}

const isPhone = () => matchMedia("(pointer: coarse)").matches && innerWidth < 700;

function pick(label, title, entries) {
  const element = h("button.pick", { type: "button", "aria-haspopup": "menu", "aria-expanded": "false", title }, h("span.clip", null, label), icon("down"));
  element.addEventListener("click", () => openMenu(element, entries(), title));
  return element;
}

async function blockOf(file) {
  const data = await new Promise((resolve) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result).split(",", 2)[1] || ""));
    reader.readAsDataURL(file);
  });
  if (PICTURES.has(file.type)) return { type: "image", mimeType: file.type, data };
  const uri = `file:///${encodeURIComponent(file.name)}`;
  const bytesOf = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytesOf);
    return { type: "resource", resource: { uri, mimeType: file.type || "text/plain", text } };
  } catch {
    return { type: "resource", resource: { uri, mimeType: file.type || "application/octet-stream", blob: data } };
  }
}
