// A flame graph. Click or Enter zooms in, arrow keys move between frames.

import { el } from "./dom.js";

/** Frames narrower than this share of the graph are not drawn. */
const LEAST_SHARE = 0.001;
/** A name is written where the box has room for some letters of it, in percent of the graph. */
const NAMED_PERCENT = 2;

/** The tree of calls in samples: each node has a name, a total, and what it took by itself. */
export function tree(samples, type) {
  const root = node("all", undefined);
  for (const { stack, values } of samples) {
    const value = values[type] ?? 0;
    if (value <= 0) continue;
    let at = root;
    at.total += value;
    for (const name of stack) {
      if (!at.children.has(name)) at.children.set(name, node(name, at));
      at = at.children.get(name);
      at.total += value;
    }
    at.self += value;
  }
  return root;
}

function node(name, parent) {
  return { name, parent, total: 0, self: 0, children: new Map() };
}

/** Self and total value of each function; recursion is counted once. */
export function functions(root) {
  const found = new Map();
  const walk = (at, above) => {
    const it = found.get(at.name) ?? { name: at.name, self: 0, total: 0 };
    found.set(at.name, it);
    it.self += at.self;
    if (!above.has(at.name)) it.total += at.total;
    const below = new Set(above).add(at.name);
    for (const child of at.children.values()) walk(child, below);
  };
  for (const child of root.children.values()) walk(child, new Set());
  return [...found.values()].sort((a, b) => b.self - a.self);
}

/** Draws a tree. `written(value)` formats a value with its unit. */
export class Flame {
  #root;
  #written;
  #zoomed;
  #wanted = "";
  #boxes = new Map();
  #graph = el("div", {
    class: "flame",
    role: "group",
    "aria-label": "Flame graph: arrow keys move, Enter zooms in, Escape zooms out",
  });
  #told = el("p", { class: "told", role: "status" });

  constructor(root, written) {
    this.#root = root;
    this.#written = written;
    this.#zoomed = root;
    this.#graph.addEventListener("click", (event) => this.#on(event, (at) => this.#zoom(at)));
    this.#graph.addEventListener("focusin", (event) => this.#on(event, (at) => this.#tell(at)));
    this.#graph.addEventListener("mouseover", (event) => this.#on(event, (at) => this.#tell(at)));
    this.#graph.addEventListener("keydown", (event) =>
      this.#on(event, (at) => this.#walk(at, event)),
    );
    this.node = el("div", { class: "flames" }, this.#told, this.#graph);
    this.#draw(root);
    this.#tell(root);
  }

  /** Highlights the functions whose names contain the text. */
  mark(text) {
    this.#wanted = text.toLowerCase();
    for (const [at, box] of this.#boxes) box.classList.toggle("marked", this.#isMarked(at));
  }

  #isMarked(at) {
    return this.#wanted !== "" && at.name.toLowerCase().includes(this.#wanted);
  }

  #on(event, act) {
    const box = event.target.closest("button");
    if (box) act(box.call);
  }

  #tell(at) {
    const share = this.#root.total > 0 ? (100 * at.total) / this.#root.total : 0;
    this.#told.textContent = `${at.name}: ${this.#written(at.total)} (${share.toFixed(1)} %), ${this.#written(at.self)} self`;
  }

  #zoom(at) {
    this.#zoomed = at;
    this.#draw(at);
    this.#boxes.get(at)?.focus();
  }

  #draw(focus) {
    this.#boxes = new Map();
    const above = [];
    for (let at = this.#zoomed.parent; at; at = at.parent) above.unshift(at);
    above.forEach((at, depth) => this.#box(at, depth, 0, 1, "above"));
    const deepest = this.#place(this.#zoomed, above.length, 0);
    this.#graph.style.setProperty("height", `${(deepest + 1) * 1.375}rem`);
    this.#graph.replaceChildren(...this.#boxes.values());
    (this.#boxes.get(focus) ?? this.#boxes.get(this.#zoomed)).tabIndex = 0;
  }

  /** Places a frame and its callees side by side, the widest first; returns the greatest depth. */
  #place(at, depth, left) {
    const share = at.total / (this.#zoomed.total || 1);
    this.#box(at, depth, left, share);
    let deepest = depth;
    for (const child of widestFirst(at)) {
      const width = child.total / (this.#zoomed.total || 1);
      if (width < LEAST_SHARE) break;
      deepest = Math.max(deepest, this.#place(child, depth + 1, left));
      left += width;
    }
    return deepest;
  }

  #box(at, depth, left, share, kind) {
    const style = { left: `${left * 100}%`, width: `${share * 100}%`, top: `${depth * 1.375}rem` };
    const label = `${at.name}, ${this.#written(at.total)}`;
    const name = share * 100 >= NAMED_PERCENT ? at.name : "";
    const tone = `hue-${hue(at.name)}`;
    const box = el(
      "button",
      {
        type: "button",
        tabindex: "-1",
        class: ["frame", tone, kind].filter(Boolean).join(" "),
        "aria-label": label,
        style,
      },
      name,
    );
    box.call = at;
    if (this.#isMarked(at)) box.classList.add("marked");
    this.#boxes.set(at, box);
  }

  #walk(at, event) {
    const beside = at.parent ? widestFirst(at.parent) : [at];
    const place = beside.indexOf(at);
    const steps = {
      ArrowUp: at.parent,
      ArrowDown: widestFirst(at)[0],
      ArrowLeft: beside[place - 1],
      ArrowRight: beside[place + 1],
    };
    if (event.key === "Escape") this.#zoom(this.#root);
    else if (event.key in steps) this.#step(at, steps[event.key]);
    else return;
    event.preventDefault();
  }

  #step(from, target) {
    const box = this.#boxes.get(target);
    if (!box) return;
    this.#boxes.get(from).tabIndex = -1;
    box.tabIndex = 0;
    box.focus();
  }
}

function widestFirst(at) {
  return [...at.children.values()].sort((a, b) => b.total - a.total);
}

/** A color per crate. */
function hue(name) {
  const crate = name.replace(/^[<&]+/, "").split("::")[0];
  let sum = 0;
  for (const letter of crate) sum = (sum * 31 + letter.codePointAt(0)) % 9973;
  return sum % 6;
}
