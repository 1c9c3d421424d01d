// Running tasks per thread, as a tree.

import { json } from "./api.js";
import { code, el, empty, failure, tag } from "./dom.js";
import { poll } from "./poll.js";
import { count, counted, millis } from "./text.js";

export const title = "Tasks";

/** Refresh interval: 5 s. Each response queries all shards. */
const SECONDS = 5;
/** Rows per thread at first, and per click on "Show more". */
const STEP_ROWS = 200;

export function create() {
  const search = el("input", {
    type: "search",
    id: "search",
    autocomplete: "off",
    placeholder: "kind, state, address …",
  });
  const found = el("p", { class: "found", role: "status" });
  const threads = el("div", { class: "stack" });
  const tools = el(
    "div",
    { class: "tools", role: "search" },
    el("label", { for: "search" }, "Search tasks"),
    search,
    found,
  );
  const node = el("div", { class: "stack" }, tools, threads);
  const view = { threads, found, shown: new Map(), query: "", answer: undefined };
  search.addEventListener("input", () => {
    view.query = search.value.toLowerCase();
    draw(view);
  });
  const polling = poll(SECONDS, async () => {
    try {
      view.answer = await json("debug/tasks");
      draw(view);
    } catch (error) {
      view.shown.clear();
      threads.replaceChildren(failure(error));
    }
  });
  return { node, stop: polling.stop };
}

function draw(view) {
  if (!view.answer) return;
  const { shards, admin, xds } = view.answer;
  const threads = [
    ...shards.map((shard) => ({ ...shard, name: `Shard ${shard.id}` })),
    { name: "Admin", tasks: admin },
    { name: "Configuration", tasks: xds },
  ];
  let matching = 0;
  for (const thread of threads) matching += drawThread(view, thread);
  view.found.textContent = counted(matching, "task");
}

/** A thread keeps its element, so that it stays collapsed. */
function drawThread(view, thread) {
  const rows = [...flat(thread.tasks, 0, view.query)];
  let it = view.shown.get(thread.name);
  if (!it) {
    it = { summary: el("summary", {}), body: el("div", {}), room: STEP_ROWS };
    view.shown.set(thread.name, it);
    if (view.shown.size === 1) view.threads.replaceChildren();
    view.threads.append(el("details", { class: "thread", open: true }, it.summary, it.body));
  }
  it.summary.replaceChildren(...summary(thread, rows.length));
  const more = () => {
    it.room += STEP_ROWS;
    draw(view);
  };
  const focused = it.body.contains(document.activeElement) && document.activeElement.className;
  it.body.replaceChildren(...body(thread, rows, it.room, more));
  if (focused) it.body.querySelector(`.${focused}`)?.focus();
  return rows.length;
}

function summary({ name, heartbeatMs, stuck }, rows) {
  return [
    el("strong", {}, name),
    stuck && tag("stuck: not responding", "bad"),
    el("span", { class: "muted" }, counted(rows, "task")),
    heartbeatMs !== undefined &&
      el("span", { class: "muted" }, `heartbeat ${millis(heartbeatMs)} ago`),
  ].filter(Boolean);
}

function body({ name, stuck, omitted = 0 }, rows, room, more) {
  if (stuck) {
    const advice =
      "Its thread is blocked or busy; record a CPU profile to see where. Other shards are not affected.";
    return [empty(`${name} did not respond within 100 ms.`, advice)];
  }
  if (rows.length === 0) return [el("p", { class: "muted" }, "No matching tasks.")];
  const left = rows.length - room;
  return [
    taskTable(name, rows.slice(0, room)),
    left > 0 &&
      el(
        "button",
        { type: "button", class: "more", on: { click: more } },
        `Show more (${count(left)} left)`,
      ),
    omitted > 0 &&
      el("p", { class: "muted" }, `${count(omitted)} more tasks were left out of the response.`),
  ].filter(Boolean);
}

/** Flattens the tree to tasks with their depth: those that match, and their ancestors. */
function* flat(tasks, depth, query) {
  for (const task of tasks) {
    const below = [...flat(task.children ?? [], depth + 1, query)];
    const words = `${task.kind} #${task.id} ${task.state} ${task.detail ?? ""}`.toLowerCase();
    if (below.length > 0 || words.includes(query)) yield { task, depth };
    yield* below;
  }
}

function taskTable(name, rows) {
  const columns = ["Task", "State", "Since", "Polls", "Detail"];
  const number = (index) => (index === 2 || index === 3 ? "number" : undefined);
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": `Tasks of ${name}` },
    el(
      "table",
      { class: "tree", "aria-label": `Tasks of ${name}` },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          columns.map((title, index) => el("th", { scope: "col", class: number(index) }, title)),
        ),
      ),
      el("tbody", {}, rows.map(row)),
    ),
  );
}

function row({ task, depth }) {
  const indent = { "padding-left": `${0.75 + depth * 1.5}rem` };
  return el(
    "tr",
    {},
    el(
      "th",
      { scope: "row", style: indent },
      depth > 0 && el("span", { class: "branch", "aria-hidden": "true" }, "└ "),
      task.kind,
      el("span", { class: "muted" }, ` #${task.id}`),
      depth > 0 && el("span", { class: "hidden" }, `, level ${depth + 1}`),
    ),
    el("td", {}, tag(task.state)),
    el("td", { class: "number" }, millis(task.sinceMs)),
    el("td", { class: "number" }, count(task.polls)),
    el("td", {}, task.detail ? code(task.detail) : ""),
  );
}
