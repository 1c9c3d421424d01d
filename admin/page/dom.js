// Creates elements. Strings are inserted as text only; the Content-Security-Policy forbids turning
// them into HTML.

import { BUSY } from "./api.js";

/**
 * An element with attributes and children. `on` has event listeners and `style` CSS properties.
 * Attributes and children that are `undefined`, `null` or `false` are left out.
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    setAttribute(element, name, value);
  }
  element.append(...children.flat(Infinity).filter(isShown));
  return element;
}

function setAttribute(element, name, value) {
  if (name === "on") {
    for (const [event, listener] of Object.entries(value))
      element.addEventListener(event, listener);
  } else if (name === "style") {
    for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
  } else if (isShown(value)) {
    element.setAttribute(name, value === true ? "" : value);
  }
}

function isShown(value) {
  return value !== undefined && value !== null && value !== false;
}

/** Inline code, such as a key or a header. */
export function code(text, attributes = {}) {
  return el("code", attributes, text);
}

/** A colored label; its text has the same meaning as the color. */
export function tag(text, tone = "plain") {
  return el("span", { class: `tag ${tone}` }, text);
}

/** A bar for a number from 0 to 1; the same number is in the text beside it. */
export function bar(share, tone = "plain") {
  const width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return el(
    "span",
    { class: `meter ${tone}`, "aria-hidden": "true" },
    el("span", { style: { width } }),
  );
}

/** A plain table. Numbers are right-aligned. */
export function table(caption, columns, rows) {
  const cell = (content, index) =>
    index === 0
      ? el("th", { scope: "row" }, content)
      : el("td", { class: columns[index].number && "number" }, content);
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, columns.map(heading))),
      el(
        "tbody",
        {},
        rows.map((row) => el("tr", {}, row.map(cell))),
      ),
    ),
  );
}

function heading({ title, number }) {
  return el("th", { scope: "col", class: number && "number" }, title);
}

/** A list of names and values; pairs without a value are left out. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => isShown(value) && value !== "");
  return el(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
  );
}

/** A section of a view with a heading. */
export function section(title, ...children) {
  return el("section", {}, el("h2", {}, title), children);
}

/** A placeholder with advice, where there is nothing to show. */
export function empty(title, advice) {
  return el("div", { class: "empty" }, el("p", { class: "title" }, title), el("p", {}, advice));
}

/** An error with advice. */
export function failure(error) {
  const tone = error.status === BUSY ? "warn" : "bad";
  return el(
    "div",
    { class: `notice ${tone}`, role: "alert" },
    el("p", { class: "title" }, error.message),
    error.advice && el("p", {}, error.advice),
  );
}
