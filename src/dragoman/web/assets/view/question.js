// Questions of a session: what is asked, with the change or command in full, the answers with their keys, the deadline.
//
// A key or a click that was meant for something else must not answer: a question takes answers only after it was on the
// screen for a moment, and only after the last key before it is some time ago.
import { fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { visible, visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { contentBlock, longText } from "./content.js";
import { ElicitationForm } from "./form.js";
import { button, duration, shortPath } from "./parts.js";
import { commandOf, diffPart, otherPlaces, output } from "./tool_card.js";

// How long a question is on the screen before it can be answered, and after the last key. Milliseconds.
const SETTLE = 700;
const AFTER_KEY = 500;

// How often the answers are shown as ready or not yet. Milliseconds.
const LOOK = 100;

const KEYS = { allow_once: "y", allow_always: "a", reject_once: "n", reject_always: "x" };
const ORDER = ["allow_once", "allow_always", "reject_once", "reject_always"];

const keyTimes = [0, 0]; // when the last key that writes was pressed, and the one before it
addEventListener(
  "keydown",
  (event) => {
    if (event.key.length > 1 && event.key !== "Enter") return;
    keyTimes[1] = keyTimes[0];
    keyTimes[0] = event.timeStamp;
  },
  { capture: true, passive: true },
);

/** All open questions of a session, above the composer. */
export class QuestionDock {
  #views = new Map(); // by question
  #timer = 0;
  #look = 0;

  constructor(session) {
    this.session = session;
    this.element = h("section.asking", { "aria-label": T.questions, "aria-live": "assertive" });
    // A narrow screen has no room for the composer below a question: its Stop is in the question then.
    this.stop = button(T.stopTurn, () => this.current && isSettled(this.current) && session.cancel(), { kind: "halt show-s", glyph: "stop" });
    session.on("questions", () => this.update());
    session.on("turn", () => this.#showStop());
    this.update();
  }

  update() {
    const { questions, canWrite } = this.session;
    for (const question of [...this.#views.keys()]) if (!questions.includes(question)) this.#views.delete(question);
    for (const question of questions) {
      if (!this.#views.has(question)) this.#views.set(question, this.#viewOf(question));
      this.#views.get(question).update?.();
    }
    const shown = canWrite ? questions : [];
    // One at a time: the others wait behind it, and a key is never about two.
    const first = shown[0];
    const view = first ? this.#views.get(first) : null;
    if (view && this.element.firstChild !== view.element) {
      view.element.querySelector(".choose").append(this.stop);
      fill(this.element, view.element);
      first.shown = 0;
      requestAnimationFrame(() => requestAnimationFrame(() => (first.shown = performance.now())));
    } else if (!view) this.element.replaceChildren();
    view?.count(shown.length - 1);
    this.#showStop();
    clearInterval(this.#timer);
    if (first?.ends) this.#timer = setInterval(() => view.update(), 1000);
    clearInterval(this.#look);
    if (first) this.#look = setInterval(() => view.element.classList.toggle("settled", isSettled(first)), LOOK);
  }

  #showStop() {
    this.stop.hidden = !this.session.isRunning;
  }

  get current() {
    return this.session.canWrite ? this.session.questions[0] || null : null;
  }

  /** Answer by a key; true if the key belongs to the question. */
  press(event) {
    const question = this.current;
    const view = question && this.#views.get(question);
    if (!view || event.ctrlKey || event.metaKey || event.altKey) return false;
    const option = view.options?.find((each, at) => each.key === event.key || String(at + 1) === event.key);
    if (!option) return false;
    if (!event.repeat && isSettled(question, event.timeStamp)) option.act();
    return true;
  }

  /** Open or close the whole change. */
  focus() {
    this.element.querySelector("button.btn.main, input, select, button.btn")?.focus();
  }

  #viewOf(question) {
    if (question.method === "elicitation/create") return new ElicitationForm(question, this.session, isSettled);
    return permissionView(question, this.session);
  }
}

/** Whether a question was on the screen long enough for an answer that was made at this time. */
export function isSettled(question, time = performance.now()) {
  if (question.lost || !question.shown || time - question.shown < SETTLE) return false;
  const before = keyTimes.find((key) => key < time - 5) || 0; // the key that answers does not count
  return time - before >= AFTER_KEY;
}

function permissionView(question, session) {
  const { toolCall = {}, options = [] } = question.params;
  const sorted = [...options].sort((one, two) => ORDER.indexOf(one.kind) - ORDER.indexOf(two.kind));
  const used = new Set();
  const answers = sorted.map((option) => {
    const key = used.has(KEYS[option.kind]) ? "" : KEYS[option.kind] || "";
    used.add(key);
    const act = () => {
      if (question.lost) return;
      session.answer(question, { outcome: { outcome: "selected", optionId: option.optionId } });
    };
    return { key, act, option };
  });
  const left = h("span.why");
  const more = h("span.why");
  const buttons = answers.map(({ key, act, option }) =>
    button(visibleLine(option.name || option.optionId, 60), () => isSettled(question) && act(), {
      kind: option.kind === "allow_once" ? "main" : option.kind?.startsWith("reject") ? "no1" : "",
      key,
    }),
  );
  const element = h(
    "div.asks",
    { role: "group", "aria-label": T.question },
    h("div.q", null, icon(toolCall.kind === "execute" ? "terminal" : toolCall.kind === "edit" ? "pencil" : "shield"), h("b", null, titleOf(toolCall)), left, more),
    h("div.act", null, subject(toolCall, session)),
    h("div.choose", null, buttons, button(T.leaveToOthers, () => session.answer(question, { outcome: { outcome: "cancelled" } }), { kind: "bare" })),
  );
  const update = () => {
    element.classList.toggle("lost", Boolean(question.lost));
    left.textContent = question.lost ? T.questionLost : question.ends ? T.answerWithin(duration(Math.max(0, (question.ends - Date.now()) / 1000))) : "";
  };
  update();
  return { element, options: answers, update, count: (count) => (more.textContent = count > 0 ? T.moreQuestions(count) : "") };
}

function titleOf(call) {
  return T.askTitles[call.kind] || T.askTitle;
}

// Everything that is asked about, in full: the title alone may say anything.
function subject(call, session) {
  const nodes = [];
  const command = commandOf(call);
  const title = visibleLine(call.title || "", 400);
  if (title && title !== command) nodes.push(h("div.what", null, title));
  if (command) nodes.push(h("pre.command", { tabindex: "0" }, longText(command, (text) => visible(text), 4000)));
  for (const place of otherPlaces(call)) {
    nodes.push(h("div.where", null, h("code", null, shortPath(place.path, session.cwd), place.line ? `:${place.line}` : "")));
  }
  for (const block of call.content || []) {
    if (block.type === "diff") nodes.push(diffPart(block, session));
    else if (block.type === "terminal") continue;
    else if (block.content?.type === "text") nodes.push(output(block.content.text));
    else nodes.push(contentBlock(block.content || block));
  }
  for (const [name, value] of detailsOf(call)) nodes.push(h("div.where", null, h("b", null, `${name} `), h("code", null, value)));
  const agent = visibleLine(session.agentName, 60);
  nodes.push(h("span.where", null, T.askedBy(agent, shortPath(session.cwd, ""))));
  return nodes;
}

// What else the agent passed: names and values in one line each.
function detailsOf(call) {
  const input = call.rawInput;
  if (typeof input === "string") return [[T.input, visibleLine(input, 2000)]];
  if (!input || typeof input !== "object") return [];
  const shown = new Set(["command", "path", "file_path", "content", "old_string", "new_string", "oldText", "newText"]);
  return Object.entries(input)
    .filter(([name, value]) => !shown.has(name) && value !== null && value !== "")
    .slice(0, 12)
    .map(([name, value]) => [visibleLine(name, 40), visibleLine(typeof value === "string" ? value : JSON.stringify(value), 600)]);
}
