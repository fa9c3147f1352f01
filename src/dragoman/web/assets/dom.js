// Elements from data. Text always becomes text: nothing here reads HTML.

const NAMESPACES = { svg: "http://www.w3.org/2000/svg", path: "http://www.w3.org/2000/svg" };

/** Make an element: h("button.btn.main", {type: "button", onclick: act}, "Send"). Null children are left out. */
export function h(spec, props, ...children) {
  const [tag, ...classes] = spec.split(".");
  const space = NAMESPACES[tag];
  const element = space ? document.createElementNS(space, tag) : document.createElement(tag || "div");
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(props || {})) setProp(element, name, value);
  append(element, children);
  return element;
}

function setProp(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "class") element.setAttribute("class", `${element.getAttribute("class") || ""} ${value}`.trim());
  else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
  else element.setAttribute(name, value === true ? "" : String(value));
}

/** Append children: elements, texts, and lists of them. */
export function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** Replace what is in an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

/** Set the text of an element only if it differs, so that screen readers are not told it again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Show or hide an element. */
export function show(element, visible) {
  element.hidden = !visible;
}

/** Something that others listen to: on(name, listener) returns the function that ends it. */
export class Emitter {
  #listeners = new Map();

  on(name, listener) {
    const listeners = this.#listeners.get(name) || this.#listeners.set(name, new Set()).get(name);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  emit(name, value) {
    for (const listener of [...(this.#listeners.get(name) || [])]) listener(value);
  }
}

/** A function that runs `act` at most once a frame, or once in `pause` milliseconds. */
export function oncePerFrame(act, pause = 0) {
  let waits = false;
  let last = 0;
  const run = () => {
    waits = false;
    last = performance.now();
    act();
  };
  return () => {
    if (waits) return;
    waits = true;
    const left = pause - (performance.now() - last);
    if (document.hidden) setTimeout(run, Math.max(left, 200));
    else if (left > 0) setTimeout(() => requestAnimationFrame(run), left);
    else requestAnimationFrame(run);
  };
}

/** Values of this browser that outlive the page. Without storage they last as long as it. */
export const memory = {
  values: new Map(),
  get(name, fallback = null) {
    try {
      const text = localStorage.getItem(`dragoman.${name}`);
      return text === null ? (this.values.get(name) ?? fallback) : JSON.parse(text);
    } catch {
      return this.values.get(name) ?? fallback;
    }
  },
  set(name, value) {
    this.values.set(name, value);
    try {
      localStorage.setItem(`dragoman.${name}`, JSON.stringify(value));
    } catch {
      // storage is off or full
    }
  },
};
