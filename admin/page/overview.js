// Whether the gateway is ready, what it serves, and what needs a look.

import { condition } from "./backends.js";
import { validity } from "./certificates.js";
import { code, el, facts, section, table, tag } from "./dom.js";
import { to } from "./place.js";
import { health } from "./health.js";
import { count, counted, millis, seconds } from "./text.js";

export const title = "Overview";

export function create(watch) {
  const node = el("div", { class: "stack overview" });
  const [state, loaded, details] = [1, 2, 3].map(() => el("div", { class: "stack" }));
  loaded.append(
    section("Serving", el("div", { class: "tiles" }, el("p", { class: "tile" }, "Loading…"))),
  );
  node.append(state, loaded, details);
  const draw = ({ version, runtime, source }) => {
    state.replaceChildren(readiness(runtime), ...outages(runtime));
    details.replaceChildren(
      section("Shards", shards(runtime)),
      section("Gateway", about(version, runtime, source)),
    );
  };
  const stops = [
    health.watch(() => health.known && draw(health.known)),
    watch((dump) => loaded.replaceChildren(...serving(dump))),
  ];
  return { node, stop: () => stops.forEach((stop) => stop()) };
}

/** A shard whose event loop did not turn for this long is in trouble: 1 s. */
const LATE_MILLIS = 1000;

function shards(runtime) {
  const rows = runtime.shards.map((shard) => [
    `Shard ${shard.id}`,
    shard.reason
      ? [`${shard.driver} `, el("span", { class: "muted" }, shard.reason)]
      : shard.driver,
    shard.core === undefined ? "not bound" : String(shard.core),
    count(shard.connections),
    tag(`${millis(shard.heartbeatMs)} ago`, shard.heartbeatMs > LATE_MILLIS ? "bad" : "good"),
  ]);
  const columns = [
    { title: "Shard" },
    { title: "Driver" },
    { title: "Core", number: true },
    { title: "Connections", number: true },
    { title: "Last turn", number: true },
  ];
  return table("Shards", columns, rows);
}

function about(version, runtime, source) {
  return facts([
    ["version", version.gateway],
    ["runs for", seconds(runtime.uptimeSeconds)],
    ["configuration", configuration(version, source)],
    [source.kind === "xds" ? "controller" : "files", source.from.map((from) => code(from))],
    ["problems", problems(source)],
    ["CPUs", runtime.cpus.join(", ")],
    [
      "descriptors of a shard",
      `${count(runtime.descriptorsPerShard)} at most, for its connections`,
    ],
  ]);
}

function configuration({ configuration: number }, { ageSeconds }) {
  if (number === 0) return "none yet";
  return ageSeconds === null
    ? `number ${number}`
    : `number ${number}, in force for ${seconds(ageSeconds)}`;
}

function problems({ problems }) {
  if (problems === 0) return tag("none", "good");
  return [
    tag(counted(problems, "problem"), "warn"),
    " The gateway's log names each with its object and field.",
  ];
}

/** What each thing that is waited for means, and what to do about it. */
const PENDING = {
  configuration:
    "The first complete configuration is not loaded yet. Look at the log for what is wrong with it.",
  listeners:
    "No socket is bound yet. Look at the log for what keeps them, such as a port that another process has.",
  shards: "Not all request threads are up yet.",
  draining:
    "It was told to end: load balancers send nothing new, and requests under way are finished.",
};

function readiness({ pending, bindsDown = [] }) {
  if (pending.length === 0) {
    const listeners = bindsDown.length > 0 ? "some listeners are bound" : "the listeners are bound";
    const text = `Traffic may come: the configuration is loaded, ${listeners}, and all shards are up.`;
    return el(
      "div",
      { class: "notice good" },
      el("p", { class: "title" }, "Ready"),
      el("p", {}, text),
    );
  }
  const [title, tone] = pending.includes("draining") ? ["Draining", "warn"] : ["Not ready", "bad"];
  const reasons = pending.map((name) => el("p", {}, PENDING[name] ?? name));
  return el("div", { class: `notice ${tone}` }, el("p", { class: "title" }, title), reasons);
}

/** What gets no traffic although the gateway is ready: it is, once one socket is bound. */
function outages({ bindsDown = [] }) {
  if (bindsDown.length === 0) return [];
  const title = `${counted(bindsDown.length, "socket")} cannot be bound`;
  return [
    el(
      "div",
      { class: "notice warn" },
      el("p", { class: "title" }, title),
      el("p", {}, "Clients are refused there. The gateway tries again by itself."),
      el(
        "ul",
        { class: "plain" },
        bindsDown.map(({ address, reason }) => el("li", {}, code(address), `: ${reason}`)),
      ),
    ),
  ];
}

function serving(dump) {
  const endpoints = [...dump.backends, ...dump.services].flatMap((owner) =>
    owner.endpoints.length > 0 ? owner.endpoints : [undefined],
  );
  const unwell = endpoints.filter((endpoint) =>
    ["warn", "bad"].includes(condition(endpoint).tone),
  ).length;
  const invalid = dump.routes.filter(({ backends }) =>
    backends.some(({ target }) => target.type === "Invalid"),
  ).length;
  const ending = dump.certificates.filter(
    (certificate) => validity(certificate).tone !== "good",
  ).length;
  const tile = (view, number, noun, nouns, note) =>
    el(
      "a",
      { class: "tile", href: to(view) },
      el("strong", {}, count(number)),
      el("span", {}, number === 1 ? noun : nouns),
      note,
    );
  const note = (number, text) => number > 0 && tag(`${count(number)} ${text}`, "warn");
  return [
    section(
      "Serving",
      el(
        "div",
        { class: "tiles" },
        tile("listeners", dump.listeners.length, "listener", "listeners"),
        tile("routes", dump.routes.length, "rule", "rules", note(invalid, "invalid")),
        tile(
          "backends",
          endpoints.filter(Boolean).length,
          "endpoint",
          "endpoints",
          note(unwell, "not healthy"),
        ),
        tile("policies", dump.policies.length, "policy", "policies"),
        tile(
          "certificates",
          dump.certificates.length,
          "certificate",
          "certificates",
          note(ending, "over soon"),
        ),
      ),
    ),
  ];
}
