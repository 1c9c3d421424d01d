// The frame of the page: the current view, navigation, and the status bar.

import { BUSY } from "./api.js";
import * as backends from "./backends.js";
import * as certificates from "./certificates.js";
import { el, failure } from "./dom.js";
import { health, start } from "./health.js";
import * as listeners from "./listeners.js";
import * as logging from "./logging.js";
import * as memory from "./memory.js";
import * as overview from "./overview.js";
import { place } from "./place.js";
import * as policies from "./policies.js";
import { setPaused } from "./poll.js";
import * as profiles from "./profiles.js";
import * as routes from "./routes.js";
import { store } from "./store.js";
import * as tasks from "./tasks.js";
import { counted } from "./text.js";
import * as trace from "./trace.js";

const VIEWS = {
  overview,
  routes,
  listeners,
  backends,
  policies,
  certificates,
  trace,
  logging,
  tasks,
  memory,
  profiles,
};

const main = document.getElementById("main");
const problem = el("div", {});
let shown;

function show() {
  const { view, parameters } = place();
  const module = VIEWS[view] ?? overview;
  if (shown?.module === module) {
    shown.view.turnTo?.(parameters);
    return;
  }
  shown?.view.stop?.();
  const heading = el("h1", { tabindex: "-1" }, module.title);
  const body = el("div", { class: "view" });
  const isFirst = shown === undefined;
  main.replaceChildren(heading, problem, body);
  shown = { module, view: module.create(watcher(body)) };
  body.append(shown.view.node);
  document.title = `${module.title} · Gateway`;
  markPlace(view);
  if (!isFirst && !main.contains(document.activeElement)) heading.focus();
}

/** Subscribes a view to the configuration; the view is hidden until one is loaded. */
function watcher(body) {
  return (draw) =>
    store.watch(() => {
      body.classList.toggle("waiting", !store.dump);
      if (store.dump) draw(store.dump);
    });
}

function markPlace(view) {
  for (const link of document.querySelectorAll("body > nav a")) {
    if (link.hash === `#${view in VIEWS ? view : "overview"}`)
      link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Shows the gateway's state in the status bar. */
function drawState() {
  const [text, tone] = stateText();
  const state = document.getElementById("state");
  if (state.textContent !== text) state.textContent = text;
  state.className = `state ${tone}`;
  const { version } = health.known ?? {};
  const facts = version ? `configuration ${version.configuration} · ${version.gateway}` : "";
  document.getElementById("facts").textContent = facts;
}

function stateText() {
  if (health.error?.status === BUSY) return ["Busy", "warn"];
  if (health.error) return ["Unreachable", "bad"];
  if (!health.known) return ["Connecting…", "plain"];
  const { pending, bindsDown = [] } = health.known.runtime;
  if (pending.length === 0 && bindsDown.length > 0)
    return [`Ready, ${counted(bindsDown.length, "socket")} down`, "warn"];
  if (pending.length === 0) return ["Ready", "good"];
  if (pending.includes("draining")) return ["Draining", "warn"];
  return [`Not ready: ${pending.join(", ")}`, "bad"];
}

/** Shows a failed request above all views, until one succeeds. */
function drawProblem() {
  const error = health.error ?? store.error;
  if (problem.dataset.says === (error?.message ?? "")) return;
  problem.dataset.says = error?.message ?? "";
  problem.replaceChildren(...(error ? [failure(error)] : []));
}

function prepareBar() {
  document.getElementById("address").textContent = location.host;
  const pause = document.getElementById("pause");
  pause.addEventListener("click", () => {
    const paused = pause.getAttribute("aria-pressed") !== "true";
    pause.setAttribute("aria-pressed", String(paused));
    setPaused(paused);
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
}

/** The key `/` focuses the search of the view. */
function goToSearch(event) {
  const typing = event.target.closest("input, select, textarea");
  const search = document.getElementById("search");
  if (event.key !== "/" || typing || !search || event.ctrlKey || event.metaKey || event.altKey)
    return;
  event.preventDefault();
  search.focus();
}

prepareBar();
show();
addEventListener("hashchange", show);
addEventListener("keydown", goToSearch);
health.watch(() => (drawState(), drawProblem()));
store.watch(drawProblem);
start();
