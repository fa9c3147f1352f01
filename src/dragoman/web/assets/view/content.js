// Content blocks of messages and tool calls: text, images, sounds, files, links to resources.
import { h } from "../dom.js";
import { icon } from "../icons.js";
import { MarkdownView } from "../text/markdown.js";
import { clip, visible, visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { bytes } from "./parts.js";

// Images that a browser draws without running anything. Others are offered as files.
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);
const SOUNDS = new Set(["audio/wav", "audio/x-wav", "audio/mpeg", "audio/ogg", "audio/webm", "audio/mp4"]);

// Characters of one text that are shown at once, and added by each click. More would stop the page.
const SHOWN_TEXT = 60000;

/** A text that may be very long: cut, with a button that shows more. `render(text)` returns nodes. */
export function longText(text, render, limit = SHOWN_TEXT) {
  const { shown, rest } = clip(text, limit);
  if (!rest) return render(shown);
  const more = h("button.btn.more", { type: "button" }, T.showMore(rest));
  const box = h("div.cut", null, render(shown), more);
  let end = shown.length;
  more.addEventListener("click", () => {
    const next = clip(text.slice(end), limit);
    more.before(...[render(next.shown)].flat());
    end += next.shown.length;
    if (next.rest) more.textContent = T.showMore(next.rest);
    else more.remove();
  });
  return box;
}

/** Plain text in a block that keeps its lines. */
export function plainText(text, className = "") {
  return longText(text, (part) => h("div.plain", { class: className }, visible(part)));
}

/** The parts of a message, which grow while it streams: update() shows what is new. */
export class PartsView {
  #views = [];

  constructor(item, isMarkdown) {
    this.item = item;
    this.isMarkdown = isMarkdown;
    this.element = h("div.text");
    this.update();
  }

  update() {
    const { parts } = this.item;
    if (parts.length < this.#views.length) {
      this.element.replaceChildren();
      this.#views = [];
    }
    parts.forEach((part, at) => {
      if (!this.#views[at]) {
        this.#views[at] = this.#viewOf(part);
        this.element.append(this.#views[at].element);
      }
      this.#views[at].update?.(part);
    });
  }

  #viewOf(part) {
    if (part.type !== "text") return { element: contentBlock(part) };
    if (!this.isMarkdown) return growingText();
    return growingMarkdown();
  }
}

function growingText() {
  const element = h("div");
  let shown = "";
  const update = ({ text }) => {
    if (text === shown) return;
    shown = text;
    element.replaceChildren(plainText(text));
  };
  return { element, update };
}

function growingMarkdown() {
  const body = h("div.md");
  const element = h("div", null, body);
  const view = new MarkdownView(body);
  let more = null;
  let limit = SHOWN_TEXT;
  const update = ({ text }) => {
    const { shown, rest } = clip(text, limit);
    view.update(rest ? shown : text);
    if (!rest) {
      more?.remove();
      more = null;
      return;
    }
    if (!more) {
      more = h("button.btn.more", { type: "button" });
      more.addEventListener("click", () => {
        limit *= 2;
        update({ text });
      });
      element.append(more);
    }
    more.textContent = T.showMore(rest);
  };
  return { element, update };
}

/** One block that is not plain text of a message. */
export function contentBlock(block) {
  if (block.type === "text") return plainText(block.text || "");
  if (block.type === "image") return imageBlock(block);
  if (block.type === "audio") return soundBlock(block);
  if (block.type === "resource") return resourceBlock(block.resource || {});
  if (block.type === "resource_link") return linkBlock(block);
  return h("p.dim", null, T.unknownContent(visibleLine(String(block.type || ""), 40)));
}

function blobOf(data, type) {
  try {
    return new Blob([Uint8Array.from(atob(data || ""), (char) => char.charCodeAt(0))], { type });
  } catch {
    return null;
  }
}

function imageBlock({ data, mimeType }) {
  const blob = IMAGES.has(mimeType) ? blobOf(data, mimeType) : null;
  if (!blob) return fileBlock(T.image, mimeType, data);
  const image = h("img.shot", { alt: T.imageFrom, loading: "lazy" });
  image.src = URL.createObjectURL(blob);
  image.addEventListener("error", () => image.replaceWith(h("p.dim", null, T.imageBroken)));
  return h("a.shot-link", { href: image.src, target: "_blank", rel: "noopener", "aria-label": T.openImage }, image);
}

function soundBlock({ data, mimeType }) {
  const blob = SOUNDS.has(mimeType) ? blobOf(data, mimeType) : null;
  if (!blob) return fileBlock(T.sound, mimeType, data);
  const player = h("audio", { controls: true, "aria-label": T.sound });
  player.src = URL.createObjectURL(blob);
  return player;
}

// A file is offered as bytes: the browser never opens it as a page of this host.
function fileBlock(name, mimeType, data) {
  const blob = blobOf(data, "application/octet-stream");
  const label = `${name} ${visibleLine(mimeType || "", 40)}${blob ? `, ${bytes(blob.size)}` : ""}`;
  if (!blob) return h("p.chip", null, icon("file"), label);
  const anchor = h("a.chip", { download: "file" }, icon("file"), label);
  anchor.href = URL.createObjectURL(blob);
  return anchor;
}

function resourceBlock(resource) {
  const name = visibleLine(resource.uri || T.resource, 120);
  if (typeof resource.text !== "string") return fileBlock(name, resource.mimeType, resource.blob);
  return h("details.resource", null, h("summary", null, icon("chevron", "chev"), icon("file"), h("span.clip", null, name)), plainText(resource.text, "mono"));
}

function linkBlock(link) {
  const name = visibleLine(link.title || link.name || link.uri || "", 120);
  return h("span.chip", { title: visible(link.uri || "") }, icon("file"), name, link.size ? h("span.dim", null, bytes(link.size)) : null);
}
