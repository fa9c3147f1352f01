// Small parts that several views share: buttons, faces, times, menus, dialogs, short messages.
import { append, h } from "../dom.js";
import { icon } from "../icons.js";
import { visible, visibleLine } from "../text/visible.js";
import { T } from "../texts.js";

/** A button: text, what it does, and a key that does the same. */
export function button(text, onclick, { kind = "", key = "", glyph = "", ...props } = {}) {
  return h(
    "button.btn",
    { type: "button", class: kind, onclick, ...props },
    glyph ? icon(glyph) : null,
    h("span", null, text),
    key ? h("kbd", { "aria-hidden": "true" }, key) : null,
  );
}

/** A button with only an icon. */
export function iconButton(glyph, label, onclick, props = {}) {
  return h("button.icon", { type: "button", "aria-label": label, title: label, onclick, ...props }, icon(glyph));
}

/** The first letter of a person's name on a color of theirs. */
export function face(user, state = "") {
  let sum = 0;
  for (const char of user) sum = (sum * 31 + char.codePointAt(0)) % 1009;
  const letter = visibleLine(user, 2).slice(0, 1).toUpperCase() || "?";
  return h("span.face", { class: `f${sum % 4} ${state}`, title: `${visibleLine(user, 60)} ${T.presence[state] || ""}`.trim() }, letter);
}

/** A time as people say it: now, 5 m, 3 h, Tue, 4 Mar. */
export function ago(time, now = Date.now()) {
  const date = new Date(time);
  const minutes = Math.floor((now - date.getTime()) / 60000);
  if (Number.isNaN(minutes)) return "";
  if (minutes < 1) return T.now;
  if (minutes < 60) return T.minutes(minutes);
  if (minutes < 24 * 60) return T.hours(Math.floor(minutes / 60));
  if (minutes < 7 * 24 * 60) return date.toLocaleDateString("en", { weekday: "short" });
  return date.toLocaleDateString("en", { day: "numeric", month: "short" });
}

/** Hours and minutes of a time. */
export function clock(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

/** A duration in words: 12 s, 1 min 12 s, 2 h 5 min. */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds)); // first, or 119.9 would be 1 min 60 s
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 48 * 3600) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} days`;
}

/** A number of bytes in words. */
export function bytes(count) {
  if (count < 1000) return `${count} B`;
  if (count < 1e6) return `${(count / 1000).toFixed(count < 1e4 ? 1 : 0)} kB`;
  return `${(count / 1e6).toFixed(1)} MB`;
}

/** A path without what all paths of the session begin with. */
export function shortPath(path, cwd) {
  const text = String(path || "");
  if (cwd && text.startsWith(`${cwd.replace(/\/$/, "")}/`)) return visible(text.slice(cwd.replace(/\/$/, "").length + 1));
  return visible(text);
}

let toastTimer = 0;

/** A short message at the end of the screen, also for screen readers. */
export function toast(text, tone = "") {
  let place = document.querySelector("#toast");
  if (!place) {
    place = h("div", { id: "toast", role: "status", "aria-live": "polite" });
    document.body.append(place);
  }
  place.replaceChildren(h("p.toast", { class: tone }, icon(tone === "bad" ? "warn" : "check"), h("span", null, visible(text))));
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => place.replaceChildren(), 6000);
}

/** Open a dialog. `build(close)` returns its content. The promise has what it was closed with. */
export function dialog(title, build, { wide = false } = {}) {
  return new Promise((resolve) => {
    const heading = h("h2", { id: `dialog-${Math.random().toString(36).slice(2)}` }, title);
    const element = h("dialog.box", { class: wide ? "wide" : "", "aria-labelledby": heading.id });
    let result;
    const close = (value) => {
      result = value;
      element.close();
    };
    const top = h("div.box-top", null, heading, iconButton("cross", T.close, () => close()));
    append(element, [top, build(close)]);
    element.addEventListener("close", () => {
      element.remove();
      resolve(result);
    });
    element.addEventListener("click", (event) => {
      if (event.target === element) close();
    });
    document.body.append(element);
    element.showModal();
    element.querySelector(".box-body :is(input, select, textarea)")?.focus();
  });
}

/** Ask before something that cannot be undone. */
export function confirmed(title, text, action) {
  return dialog(title, (close) =>
    h(
      "form.box-body",
      { method: "dialog", onsubmit: (event) => (event.preventDefault(), close(true)) },
      h("p", null, text),
      h("div.choose", null, h("button.btn.danger", { type: "submit" }, action), button(T.cancel, () => close(false), { kind: "bare" })),
    ),
  );
}

/** A menu below a button: entries are {text, glyph, act} or null for a line. */
export function openMenu(anchor, entries, label) {
  document.querySelector(".menu-layer")?.remove();
  const close = () => {
    layer.remove();
    anchor.setAttribute("aria-expanded", "false");
    anchor.focus();
  };
  const items = entries.filter(Boolean).map((entry) =>
    h(
      "button.menu-item",
      {
        type: "button",
        role: entry.checked === undefined ? "menuitem" : "menuitemradio",
        "aria-checked": entry.checked === undefined ? null : String(entry.checked),
        class: entry.danger ? "danger" : "",
        onclick: () => {
          close();
          entry.act();
        },
      },
      entry.glyph ? icon(entry.glyph) : entry.checked === undefined ? null : icon(entry.checked ? "check" : "circle", entry.checked ? "" : "ghost"),
      h("span.grow", null, h("span", null, entry.text), entry.note ? h("span.note-line", null, entry.note) : null),
    ),
  );
  const menu = h("div.menu", { role: "menu", "aria-label": label }, items);
  const layer = h("div.menu-layer", {
    onclick: (event) => event.target === layer && close(),
    onkeydown: (event) => {
      const at = items.indexOf(document.activeElement);
      if (event.key === "Escape") close();
      else if (event.key === "ArrowDown") items[(at + 1) % items.length]?.focus();
      else if (event.key === "ArrowUp") items[(at - 1 + items.length) % items.length]?.focus();
      else if (event.key === "Tab") close();
      else return;
      event.preventDefault();
      event.stopPropagation();
    },
  });
  layer.append(menu);
  document.body.append(layer);
  const box = anchor.getBoundingClientRect();
  const width = menu.offsetWidth;
  menu.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
  if (box.bottom + menu.offsetHeight + 8 < innerHeight) menu.style.top = `${box.bottom + 4}px`;
  else menu.style.top = `${Math.max(8, box.top - menu.offsetHeight - 4)}px`;
  anchor.setAttribute("aria-expanded", "true");
  items[0]?.focus();
}
