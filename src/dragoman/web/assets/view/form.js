// A form or a link that the agent asks for (elicitation): fields from a JSON schema, answered, declined or left.
import { h } from "../dom.js";
import { icon } from "../icons.js";
import { visible, visibleLine } from "../text/visible.js";
import { T } from "../texts.js";
import { button } from "./parts.js";

/** The view of one question of the agent that is not a permission. */
export class ElicitationForm {
  constructor(question, session, isSettled) {
    const { params } = question;
    this.more = h("span.why");
    const answer = (action, content) => {
      if (isSettled(question)) session.answer(question, content ? { action, content } : { action });
    };
    this.options = [{ key: "n", act: () => answer("decline") }];
    const isLink = params.mode === "url";
    const fields = isLink ? [] : fieldsOf(params.requestedSchema || {});
    const form = h(
      "form",
      {
        novalidate: true,
        onsubmit: (event) => {
          event.preventDefault();
          const wrong = fields.filter((field) => !field.check());
          if (wrong.length) wrong[0].input.focus();
          else answer("accept", isLink ? undefined : Object.fromEntries(fields.map((field) => [field.name, field.value()]).filter(([, value]) => value !== undefined)));
        },
      },
      h("div.q", null, icon(isLink ? "link" : "chat"), h("b", null, visible(params.message || T.askTitle)), this.more),
      isLink ? linkPart(params.url) : h("div.fields", null, fields.map((field) => field.element)),
      h(
        "div.choose",
        null,
        h("button.btn.main", { type: "submit" }, isLink ? T.linkDone : T.answerForm),
        button(T.decline, () => answer("decline"), { kind: "no1", key: "n" }),
        button(T.leaveToOthers, () => answer("cancel"), { kind: "bare" }),
      ),
    );
    this.element = h("div.asks", { role: "group", "aria-label": T.question }, form);
  }

  update() {}

  count(count) {
    this.more.textContent = count > 0 ? T.moreQuestions(count) : "";
  }
}

// The address is shown in full before it can be opened, and only web addresses can.
function linkPart(url) {
  const isSafe = /^https?:\/\//i.test(url || "");
  const shown = h("code", null, visible(String(url || "")));
  return h("div.act", null, shown, isSafe ? h("p", null, h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, T.openLink)) : null);
}

function fieldsOf(schema) {
  const required = new Set(schema.required || []);
  return Object.entries(schema.properties || {})
    .slice(0, 50)
    .map(([name, property]) => fieldOf(name, property || {}, required.has(name)));
}

function fieldOf(name, property, isRequired) {
  const id = `field-${Math.random().toString(36).slice(2)}`;
  const label = visibleLine(property.title || name, 80);
  const note = property.description ? h("span.dim", { id: `${id}-note` }, visible(property.description)) : null;
  const choices = property.enum || property.oneOf?.map((each) => each.const);
  if (property.type === "boolean") {
    const box = h("input", { type: "checkbox", id, checked: property.default === true });
    return { name, input: box, element: h("label.row-field", { for: id }, box, label, note), value: () => box.checked, check: () => true };
  }
  const wrong = h("span.bad", { id: `${id}-wrong`, role: "alert", hidden: true });
  const marks = { id, required: isRequired, "aria-required": String(isRequired), "aria-describedby": `${note ? `${note.id} ` : ""}${wrong.id}` };
  let input;
  if (choices) {
    const names = property.enumNames || property.oneOf?.map((each) => each.title) || choices;
    const options = choices.map((choice, at) => h("option", { value: String(at), selected: choice === property.default }, visibleLine(String(names[at] ?? choice), 100)));
    input = h("select", marks, isRequired ? null : h("option", { value: "" }, T.none), options);
  } else {
    const isNumber = property.type === "number" || property.type === "integer";
    input = h("input", {
      ...marks,
      type: isNumber ? "number" : property.format === "email" ? "email" : "text",
      step: property.type === "number" ? "any" : null,
      min: property.minimum,
      max: property.maximum,
      minlength: property.minLength,
      maxlength: property.maxLength,
      autocomplete: "off",
      value: property.default ?? "",
    });
  }
  const value = () => {
    if (input.value === "") return isRequired && property.type === "string" ? "" : undefined;
    if (choices) return choices[Number(input.value)];
    return input.type === "number" ? Number(input.value) : input.value;
  };
  const check = () => {
    const { validity } = input;
    wrong.textContent = validity.valid ? "" : validity.valueMissing ? T.fieldMissing(label) : input.validationMessage;
    wrong.hidden = validity.valid;
    input.setAttribute("aria-invalid", String(!validity.valid));
    return validity.valid;
  };
  input.addEventListener("input", () => wrong.hidden || check()); // what was wrong goes when it is right
  const mark = isRequired ? T.required : T.optional;
  return { name, input, element: h("div.field", null, h("label", { for: id }, label, h("span.dim", null, ` (${mark})`)), note, input, wrong), value, check };
}
