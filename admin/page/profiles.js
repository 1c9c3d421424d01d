// CPU and heap profiles.

import * as api from "./api.js";
import { el, empty, failure, section, table } from "./dom.js";
import { Flame, functions, tree } from "./flame.js";
import { read } from "./pprof.js";
import { bytes, count, counted } from "./text.js";

export const title = "Profiles";

/** Functions in the table below the graph. */
const FUNCTIONS_SHOWN = 25;
/** Timeout for symbolization, in addition to the sampling time: 5 min. */
const SYMBOLIZATION_MILLIS = 300_000;

/** Types of values, in words. */
const TYPES = {
  samples: "samples",
  cpu: "CPU time",
  alloc_objects: "total allocations",
  alloc_space: "total allocated bytes",
  inuse_objects: "live allocations",
  inuse_space: "live bytes",
};

export function create() {
  const view = new ProfilesView();
  return { node: view.node, stop: () => view.leave() };
}

class ProfilesView {
  #seconds = el("input", {
    id: "seconds",
    type: "number",
    min: "1",
    max: "300",
    value: "10",
    required: true,
  });
  #cpu = el("button", { type: "submit", class: "primary" }, "Profile CPU");
  #heap = el("button", { type: "button", on: { click: () => this.#takeHeap() } }, "Profile heap");
  #cancel = el(
    "button",
    { type: "button", disabled: true, on: { click: () => this.stop() } },
    "Cancel",
  );
  #status = el("p", { class: "status", role: "status" });
  #progress = el("progress", { max: "1", value: "0", hidden: true, "aria-label": "Sampling progress" });
  #result = el("div", { class: "stack" });
  #abort;
  /** Object URL of the last profile, for the download link. */
  #href;

  constructor() {
    const submit = (event) => {
      event.preventDefault();
      this.#takeCpu(Number(this.#seconds.value));
    };
    const field = el(
      "div",
      { class: "field" },
      el("label", { for: "seconds" }, "Seconds"),
      this.#seconds,
    );
    const buttons = el("div", { class: "buttons" }, this.#cpu, this.#heap, this.#cancel);
    this.#result.append(
      empty(
        "No profile recorded yet.",
        "A CPU profile samples the running code for the given time, at a few microseconds per sample. " +
          "A heap profile shows which code allocated the memory in use.",
      ),
    );
    this.node = el(
      "div",
      { class: "stack" },
      el("form", { class: "card fields", "aria-label": "Profile", on: { submit } }, field, buttons),
      this.#status,
      this.#progress,
      this.#result,
    );
  }

  stop() {
    this.#abort?.abort();
  }

  /** Releases the view's resources. */
  leave() {
    this.stop();
    if (this.#href) URL.revokeObjectURL(this.#href);
  }

  #takeCpu(seconds) {
    const began = performance.now();
    const tick = () => {
      const share = Math.min(1, (performance.now() - began) / (seconds * 1000));
      this.#progress.value = share;
      this.#status.textContent =
        share < 1 ? `Sampling for ${counted(seconds, "second")}…` : "Resolving symbols…";
    };
    this.#take(
      "cpu",
      `debug/pprof/profile?seconds=${seconds}`,
      seconds * 1000 + SYMBOLIZATION_MILLIS,
      tick,
    );
  }

  #takeHeap() {
    const tick = () => {
      this.#status.textContent = "Resolving symbols…";
    };
    this.#take("heap", "debug/pprof/heap", SYMBOLIZATION_MILLIS, tick);
  }

  async #take(name, path, timeout, tick) {
    const abort = new AbortController();
    this.#abort = abort;
    this.#running(true, name === "cpu");
    tick();
    const timer = setInterval(tick, 200);
    try {
      const file = await api.bytes(path, { signal: abort.signal, timeout });
      this.#show(name, file, await read(file));
      this.#status.textContent = "";
    } catch (error) {
      this.#status.textContent = abort.signal.aborted ? "Cancelled." : "";
      if (!abort.signal.aborted) this.#result.replaceChildren(failure(error));
    }
    clearInterval(timer);
    this.#running(false, false);
  }

  #running(value, progress) {
    const focused = this.node.contains(document.activeElement) && document.activeElement;
    for (const button of [this.#cpu, this.#heap]) button.disabled = value;
    this.#cancel.disabled = !value;
    this.#progress.hidden = !progress;
    if (value && focused?.disabled) this.#cancel.focus();
    if (!value && focused === this.#cancel) this.#cpu.focus();
  }

  #show(name, file, profile) {
    const preferred = profile.types.findIndex((type) => type.name === profile.defaultType);
    const first = preferred >= 0 ? preferred : profile.types.length - 1;
    const graph = el("div", { class: "stack" });
    const mark = el("input", {
      type: "search",
      id: "mark",
      autocomplete: "off",
      placeholder: "function …",
    });
    const choice = el(
      "select",
      { id: "type" },
      profile.types.map((type, index) =>
        el(
          "option",
          { value: String(index), selected: index === first },
          TYPES[type.name] ?? type.name,
        ),
      ),
    );
    const draw = () => this.#draw(graph, profile, Number(choice.value), mark);
    choice.addEventListener("change", draw);
    this.#result.replaceChildren(
      el(
        "div",
        { class: "tools" },
        el("label", { for: "type" }, "Show"),
        choice,
        el("label", { for: "mark" }, "Highlight"),
        mark,
        this.#download(name, file),
      ),
      graph,
    );
    draw();
  }

  /** A link to download the profile for `go tool pprof` and speedscope. Releases the previous one. */
  #download(name, file) {
    if (this.#href) URL.revokeObjectURL(this.#href);
    const href = URL.createObjectURL(new Blob([file], { type: "application/octet-stream" }));
    this.#href = href;
    return el("a", { class: "button", href, download: `gateway-${name}.pb.gz` }, "Save for pprof");
  }

  #draw(graph, profile, type, mark) {
    const written = writtenAs(profile.types[type].unit);
    const root = tree(profile.samples, type);
    if (root.total === 0) {
      graph.replaceChildren(
        empty("No samples.", "The gateway was idle: send requests to it, or record for longer."),
      );
      return;
    }
    const flame = new Flame(root, written);
    mark.oninput = () => flame.mark(mark.value);
    flame.mark(mark.value);
    graph.replaceChildren(
      section("Flame graph", flame.node),
      section("Functions", heaviest(root, written)),
    );
  }
}

function writtenAs(unit) {
  if (unit === "bytes") return bytes;
  if (unit === "nanoseconds") return (value) => `${(value / 1e6).toFixed(0)} ms`;
  return count;
}

function heaviest(root, written) {
  const share = (value) => `${((100 * value) / root.total).toFixed(1)} %`;
  const rows = functions(root)
    .slice(0, FUNCTIONS_SHOWN)
    .map(({ name, self, total }) => [
      name,
      written(self),
      share(self),
      written(total),
      share(total),
    ]);
  const columns = ["Function", "Self", "Share", "Total", "Share"];
  return table(
    "Top functions",
    columns.map((title, index) => ({ title, number: index > 0 })),
    rows,
  );
}
