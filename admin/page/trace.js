// Live traces of requests and connections.

import { events } from "./api.js";
import { el, empty, failure, tag } from "./dom.js";
import { Story } from "./story.js";
import { counted, micros } from "./text.js";

export const title = "Trace";

/** Requests and connections kept in memory; the oldest are dropped. */
const STORIES = 200;

export function create() {
  const view = new TraceView();
  return { node: view.node, stop: () => view.stop() };
}

class TraceView {
  #form = form();
  #status = el("p", { class: "status", role: "status" });
  #problem = el("div", {});
  #list = el("ol", { class: "requests", "aria-label": "Traced requests and connections" });
  #told = el("div", { class: "told" });
  #stories = [];
  #shown;
  #counts = { requests: 0, connections: 0, lost: 0 };
  #following = true;
  #abort;

  constructor() {
    const { node, stop } = this.#form;
    node.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#start();
    });
    stop.addEventListener("click", () => this.stop());
    this.#list.addEventListener("keydown", (event) => this.#walk(event));
    this.#told.append(
      empty(
        "No request traced yet.",
        "Start a trace, then send a request. It shows the candidate routes and why they were rejected, the " +
          "policies, the endpoints with their scores, and the time of each step, as they happen.",
      ),
    );
    this.node = el(
      "div",
      { class: "stack" },
      node,
      this.#status,
      this.#problem,
      el("div", { class: "stack" }, this.#list, this.#told),
    );
  }

  stop() {
    this.#abort?.abort();
  }

  async #start() {
    this.stop();
    const abort = new AbortController();
    this.#abort = abort;
    this.#reset();
    try {
      for await (const event of events(`debug/trace?${this.#form.parameters()}`, abort.signal)) {
        if (event === null) this.#says("Active: waiting for a request or connection.");
        else this.#take(event);
      }
      this.#says(this.#ended("Trace finished"));
    } catch (error) {
      if (abort.signal.aborted) this.#says(this.#ended("Stopped"));
      else this.#fails(error);
      abort.abort();
    }
    if (this.#abort === abort) this.#form.running(false);
  }

  #reset() {
    this.#stories = [];
    this.#shown = undefined;
    this.#counts = { requests: 0, connections: 0, lost: 0 };
    this.#following = true;
    this.#form.running(true);
    this.#list.replaceChildren();
    this.#problem.replaceChildren();
    this.#told.replaceChildren();
    this.#says("Starting…");
  }

  #says(text) {
    this.#status.textContent = text;
  }

  #fails(error) {
    this.#says("");
    this.#problem.replaceChildren(failure(error));
  }

  #ended(how) {
    const { requests, connections, lost } = this.#counts;
    const nothing =
      requests + connections === 0
        ? " No matching request arrived: was it sent to this gateway?"
        : "";
    const events =
      lost > 0 ? `, ${counted(lost, "event")} lost because the browser did not read them in time` : "";
    return `${how}: ${this.#came()}${events}.${nothing}`;
  }

  #came() {
    const { requests, connections } = this.#counts;
    const shown = [counted(requests, "request"), counted(connections, "connection")];
    if (connections === 0) return shown[0];
    return requests === 0 ? shown[1] : shown.join(" and ");
  }

  #take(event) {
    if (event.message.type === "eventsLost") {
      this.#counts.lost += event.message.count;
      return;
    }
    const story = this.#storyOf(event);
    story.take(event);
    this.#label(story);
    this.#says(`Receiving: ${this.#came()}.`);
  }

  /** Events with the same id belong together, until a client reuses the id. */
  #storyOf(event) {
    const begins = ["requestStarted", "connectionStarted"].includes(event.message.type);
    const same = (story) => story.id === event.requestId && story.shard === event.shard;
    const known = !begins && this.#stories.findLast(same);
    return known || this.#begin(event);
  }

  #begin(event) {
    const story = new Story(event.requestId, event.shard);
    this.#counts[event.message.type === "connectionStarted" ? "connections" : "requests"] += 1;
    this.#stories.push(story);
    story.button = el("button", {
      type: "button",
      tabindex: "-1",
      on: { click: () => this.#choose(story) },
    });
    this.#list.append(el("li", {}, story.button));
    if (this.#stories.length > STORIES) this.#forget();
    if (
      this.#shown === undefined ||
      (this.#following && !this.#list.contains(document.activeElement))
    )
      this.#show(story);
    return story;
  }

  #forget() {
    const oldest = this.#stories.find((story) => story !== this.#shown);
    this.#stories.splice(this.#stories.indexOf(oldest), 1);
    oldest.button.parentElement.remove();
  }

  /** The newest is shown until the user selects one. */
  #choose(story) {
    this.#following = false;
    this.#show(story);
  }

  #show(story) {
    this.#shown?.button.removeAttribute("aria-current");
    if (this.#shown) this.#shown.button.tabIndex = -1;
    this.#shown = story;
    story.button.setAttribute("aria-current", "true");
    story.button.tabIndex = 0;
    this.#told.replaceChildren(story.node);
  }

  #label(story) {
    const { finished } = story;
    const status = finished ? tag(story.outcome, story.tone) : tag("…");
    const time = finished?.durationMicros === undefined ? "" : micros(finished.durationMicros);
    story.button.replaceChildren(
      status,
      el("span", { class: "what" }, story.title),
      el("span", { class: "muted" }, time),
    );
  }

  #walk(event) {
    const buttons = [...this.#list.querySelectorAll("button")];
    const at = buttons.indexOf(event.target);
    const next =
      buttons[{ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key]];
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.click();
  }
}

/** The form that selects the requests to trace. */
function form() {
  const field = (id, label, attributes) => {
    const input = el("input", { id, autocomplete: "off", spellcheck: "false", ...attributes });
    return { input, node: el("div", { class: "field" }, el("label", { for: id }, label), input) };
  };
  const method = field("trace-method", "Method", {
    placeholder: "any",
    pattern: "[A-Z\\-]*",
    title: "Upper-case letters, such as GET",
    size: "7",
  });
  const host = field("trace-host", "Host", { placeholder: "any" });
  const path = field("trace-path", "Path prefix", { placeholder: "/" });
  const id = field("trace-id", "Request id", { placeholder: "any" });
  const number = field("trace-count", "Requests", {
    type: "number",
    min: "1",
    max: "10000",
    value: "1",
    required: true,
  });
  const timeout = field("trace-timeout", "Timeout", {
    placeholder: "never",
    pattern: "[0-9]+|([0-9]+(ms|s|m|h))+",
    title: "A duration such as 30s or 5m",
    size: "7",
  });
  const start = el("button", { type: "submit", class: "primary" }, "Start");
  const stop = el("button", { type: "button", disabled: true }, "Stop");
  const fields = [method, host, path, id, number, timeout].map(({ node }) => node);
  return {
    node: el(
      "form",
      { class: "card fields", "aria-label": "Trace" },
      fields,
      el("div", { class: "buttons" }, start, stop),
    ),
    stop,
    running(value) {
      const focused = document.activeElement;
      start.disabled = value;
      stop.disabled = !value;
      if (focused === start || focused === stop) (value ? stop : start).focus();
    },
    parameters() {
      const match = matchText(method.input.value, host.input.value, path.input.value);
      const given = {
        match,
        requestId: id.input.value,
        count: number.input.value,
        timeout: timeout.input.value,
      };
      const trimmed = Object.entries(given).map(([name, value]) => [name, value.trim()]);
      return new URLSearchParams(trimmed.filter(([, value]) => value !== ""));
    },
  };
}

/** `METHOD host/path-prefix`; each part is optional. */
function matchText(method, host, path) {
  const prefix = path.trim() === "" || path.startsWith("/") ? path.trim() : `/${path.trim()}`;
  const where = `${host.trim()}${prefix}`;
  if (method.trim() === "") return where;
  return where === "" ? method.trim() : `${method.trim()} ${where}`;
}
