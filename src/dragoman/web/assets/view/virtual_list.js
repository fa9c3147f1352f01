// A list that has only the elements near the screen, for any number of items. It stays at its end, or where one reads.

// Elements are kept this far above and below the screen. Pixels.
const MARGIN = 900;

// The distance from the end at which the list counts as being there. Pixels.
const AT_END = 40;

/** `render(item)` returns {element, update()}; `estimate(item)` its likely height. */
export class VirtualList {
  #items = [];
  #heights = new Map(); // by item key
  #rendered = new Map(); // by item key: {item, view, version}
  #observer;
  #shown = []; // the items that have elements, in order
  #scheduled = false;
  #width = 0;
  #ownTop = -1; // where the list itself has scrolled to
  sticksToEnd = true;
  onscroll = () => {};

  constructor(scroller, column, { render, estimate }) {
    this.scroller = scroller;
    this.column = column;
    this.render = render;
    this.estimate = estimate;
    this.top = document.createElement("div");
    this.bottom = document.createElement("div");
    column.append(this.top, this.bottom);
    this.#observer = new ResizeObserver((entries) => this.#onResize(entries));
    this.#observer.observe(scroller);
    scroller.addEventListener("scroll", () => this.#onScroll(), { passive: true });
  }

  get length() {
    return this.#items.length;
  }

  /** Show these items. The array may be the same one, changed. */
  setItems(items) {
    this.#items = items;
    this.schedule();
  }

  /** The same inside a frame: at once, because another frame would cost as much as the layout. */
  showItems(items) {
    this.#items = items;
    this.#layout(this.sticksToEnd ? null : this.#anchor());
  }

  /** Note that items were put before the others: the screen stays where it is. */
  keepPlace(change) {
    const anchor = this.#anchor();
    change();
    this.#layout(anchor);
  }

  schedule() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#layout(this.sticksToEnd ? null : this.#anchor());
    });
  }

  scrollToEnd() {
    this.sticksToEnd = true;
    this.#layout(null);
  }

  /** Bring an item to the top of the screen. */
  scrollTo(index, focus = false) {
    const item = this.#items[index];
    if (!item) return;
    this.sticksToEnd = false;
    for (let pass = 0; pass < 3; pass += 1) this.#layout({ key: item.key, offset: 8 });
    if (focus) this.#rendered.get(item.key)?.view.element.focus({ preventScroll: true });
  }

  /** The element of an item, if it is near the screen. */
  elementOf(item) {
    return this.#rendered.get(item.key)?.view.element || null;
  }

  /** The index of the first item on the screen. */
  firstVisible() {
    const anchor = this.#anchor();
    return anchor ? this.#items.findIndex((item) => item.key === anchor.key) : -1;
  }

  destroy() {
    this.#observer.disconnect();
  }

  #height(item) {
    return this.#heights.get(item.key) ?? this.estimate(item);
  }

  #onScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    // The event of a scroll of our own comes a frame later. If a question took room since, nobody has left the end.
    const isOwn = scrollTop === this.#ownTop;
    if (!isOwn || !this.sticksToEnd) this.sticksToEnd = scrollHeight - scrollTop - clientHeight < AT_END;
    this.onscroll();
    if (scrollTop !== this.#ownTop) this.schedule();
  }

  #onResize(entries) {
    let changed = false;
    for (const entry of entries) {
      if (entry.target === this.scroller) {
        if (this.#width && this.#width !== this.scroller.clientWidth) this.#heights.clear();
        this.#width = this.scroller.clientWidth;
        changed = true;
      } else if (entry.target.isConnected) {
        const height = entry.target.offsetHeight;
        if (this.#heights.get(entry.target.dataset.key) !== height) changed = true;
      }
    }
    if (changed) this.#layout(this.sticksToEnd ? null : this.#anchor());
  }

  // The first item on the screen and where it is, so that it can stay there.
  #anchor() {
    const top = this.scroller.getBoundingClientRect().top;
    for (const item of this.#shown) {
      const element = this.#rendered.get(item.key)?.view.element;
      if (!element?.isConnected) continue;
      const box = element.getBoundingClientRect();
      if (box.bottom > top) return { key: item.key, offset: box.top - top };
    }
    return null;
  }

  #layout(anchor) {
    const items = this.#items;
    const view = this.scroller.clientHeight;
    const heights = items.map((item) => this.#height(item));
    let total = 0;
    for (const height of heights) total += height;
    let target = anchor ? 0 : Math.max(0, total - view);
    if (anchor) {
      for (let index = 0; index < items.length && items[index].key !== anchor.key; index += 1) target += heights[index];
      target -= anchor.offset;
    } else if (!this.sticksToEnd) target = this.scroller.scrollTop;
    this.#showRange(items, heights, target - MARGIN, target + view + MARGIN);
    if (anchor) this.#restore(anchor);
    else if (this.sticksToEnd) this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#ownTop = this.scroller.scrollTop;
  }

  #showRange(items, heights, low, high) {
    let from = 0;
    let above = 0;
    while (from < items.length && above + heights[from] < low) {
      above += heights[from];
      from += 1;
    }
    let to = from;
    let end = above;
    while (to < items.length && end < high) {
      end += heights[to];
      to += 1;
    }
    let below = 0;
    for (let index = to; index < items.length; index += 1) below += heights[index];
    this.#place(items.slice(from, to));
    setHeight(this.top, above);
    setHeight(this.bottom, below);
  }

  #place(items) {
    this.#shown = items;
    const keys = new Set(items.map((item) => item.key));
    for (const [key, { view }] of this.#rendered) {
      if (keys.has(key)) continue;
      this.#observer.unobserve(view.element);
      view.element.remove();
      this.#rendered.delete(key);
    }
    let before = this.top;
    for (const item of items) {
      let shown = this.#rendered.get(item.key);
      if (!shown) {
        const view = this.render(item);
        view.element.dataset.key = item.key;
        shown = { view, version: item.version };
        this.#rendered.set(item.key, shown);
        this.#observer.observe(view.element);
      } else if (shown.version !== item.version) {
        shown.version = item.version;
        shown.view.update();
      }
      if (before.nextSibling !== shown.view.element) before.after(shown.view.element);
      before = shown.view.element;
    }
    for (const item of items) {
      const { element } = this.#rendered.get(item.key).view;
      this.#heights.set(item.key, element.offsetHeight);
    }
  }

  // Heights that were only estimated are known now: the anchor moves back to where it was.
  #restore(anchor) {
    const element = this.#rendered.get(anchor.key)?.view.element;
    if (!element) return;
    const top = this.scroller.getBoundingClientRect().top;
    const moved = element.getBoundingClientRect().top - top - anchor.offset;
    if (Math.abs(moved) > 0.5) this.scroller.scrollTop += moved;
  }
}

// Setting a style to what it is already costs a layout.
function setHeight(element, pixels) {
  const height = `${pixels}px`;
  if (element.style.height !== height) element.style.height = height;
}
