// The filter of the program log.

import { text } from "./api.js";
import { code, el, facts, failure, section } from "./dom.js";

export const title = "Log level";

const LEVELS = ["error", "warn", "info", "debug", "trace"];
const PREFIX = "current log level is ";

export function create() {
  const current = el("output", { class: "current", id: "current-level" }, "…");
  const outcome = el("div", { role: "status" });
  const field = el("input", {
    id: "filter",
    name: "filter",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    placeholder: "info,proxy::forward=debug",
  });
  const show = (answer) => {
    current.textContent = answer.startsWith(PREFIX) ? answer.slice(PREFIX.length) : answer;
    field.value = current.textContent;
    for (const button of buttons)
      button.setAttribute("aria-pressed", String(button.value === current.textContent));
  };
  const ask = async (path, options, done) => {
    try {
      show(await text(path, options));
      outcome.replaceChildren(done ? el("p", { class: "done" }, done()) : "");
    } catch (error) {
      outcome.replaceChildren(failure(error));
    }
  };
  const set = (level) =>
    ask(
      `logging?${new URLSearchParams({ level })}`,
      { method: "POST" },
      () => `The filter is now ${current.textContent}.`,
    );
  const buttons = LEVELS.map((level) =>
    el(
      "button",
      { type: "button", value: level, "aria-pressed": "false", on: { click: () => set(level) } },
      level,
    ),
  );
  const submit = (event) => {
    event.preventDefault();
    set(field.value.trim());
  };
  ask("logging");
  return {
    node: el("div", { class: "stack" }, form({ current, buttons, field, submit, outcome }), help()),
  };
}

function form({ current, buttons, field, submit, outcome }) {
  return el(
    "div",
    { class: "card" },
    el("p", {}, el("label", { for: "current-level" }, "Current filter: "), current),
    el(
      "div",
      { class: "buttons", role: "group", "aria-label": "Level for all modules" },
      buttons,
    ),
    el(
      "form",
      { class: "line", on: { submit } },
      el("label", { for: "filter" }, "Filter"),
      field,
      el("button", { type: "submit", class: "primary" }, "Set"),
    ),
    outcome,
  );
}

function help() {
  return section(
    "Filter syntax",
    facts([
      [code("info"), "info and above for all modules"],
      [code("info,proxy::forward=debug"), "also debug for one module"],
      [code("warn,admin=off"), "only warn and above, and nothing from one module"],
    ]),
    el(
      "p",
      { class: "muted" },
      "The syntax is that of RUST_LOG. A change takes effect immediately and lasts until the next change or a " +
        "restart. The log goes to the gateway's stderr.",
    ),
  );
}
