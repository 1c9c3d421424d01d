// Readiness, what the gateway serves, and what needs attention.

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

/** A heartbeat older than this is marked: 1 s. */
const LATE_MILLIS = 1000;

function shards(runtime) {
  const rows = runtime.shards.map((shard) => [
    `Shard ${shard.id}`,
    shard.reason
      ? [`${shard.driver} `, el("span", { class: "muted" }, shard.reason)]
      : shard.driver,
    shard.core === undefined ? "not pinned" : String(shard.core),
    count(shard.connections),
    tag(`${millis(shard.heartbeatMs)} ago`, shard.heartbeatMs > LATE_MILLIS ? "bad" : "good"),
  ]);
  const columns = [
    { title: "Shard" },
    { title: "Driver" },
    { title: "Core", number: true },
    { title: "Connections", number: true },
    { title: "Heartbeat", number: true },
  ];
  return table("Shards", columns, rows);
}

function about(version, runtime, source) {
  return facts([
    ["version", version.gateway],
    ["uptime", seconds(runtime.uptimeSeconds)],
    ["configuration", configuration(version, source)],
    [source.kind === "xds" ? "controller" : "files", source.from.map((from) => code(from))],
    ["problems", problems(source)],
    ["previous versions in effect", previousVersions(runtime)],
    ["CPUs", runtime.cpus.join(", ")],
    [
      "file descriptors per shard",
      `at most ${count(runtime.descriptorsPerShard)}, for its connections`,
    ],
  ]);
}

function configuration({ configuration: number }, { ageSeconds }) {
  if (number === 0) return "none yet";
  return ageSeconds === null
    ? `number ${number}`
    : `number ${number}, loaded ${seconds(ageSeconds)} ago`;
}

function problems({ problems }) {
  if (problems === 0) return tag("none", "good");
  return [
    tag(counted(problems, "problem"), "warn"),
    " See the gateway's log for each with its object and field.",
  ];
}

/** Objects whose current version is invalid; nothing is shown while there are none. */
function previousVersions({ previousVersions: objects = [] }) {
  if (objects.length === 0) return null;
  return objects.flatMap((object, index) => (index === 0 ? [code(object)] : [", ", code(object)]));
}

/** Explanation of and advice for each pending condition. */
const PENDING = {
  configuration:
    "No complete configuration has been loaded yet. See the log for the reason.",
  listeners:
    "No socket is bound yet. See the log for the reason, such as a port in use by another process.",
  shards: "Not all request threads have started yet.",
  draining:
    "The gateway is shutting down: load balancers stop sending requests, and requests in flight are completed.",
};

function readiness({ pending, bindsDown = [] }) {
  if (pending.length === 0) {
    const listeners = bindsDown.length > 0 ? "some listeners are bound" : "the listeners are bound";
    const text = `The configuration is loaded, ${listeners}, and all shards are running.`;
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

/** Sockets that are down. The gateway is ready as soon as one socket is bound. */
function outages({ bindsDown = [] }) {
  if (bindsDown.length === 0) return [];
  const title = `${counted(bindsDown.length, "socket")} cannot be bound`;
  return [
    el(
      "div",
      { class: "notice warn" },
      el("p", { class: "title" }, title),
      el("p", {}, "Connections to it are refused. The gateway keeps retrying."),
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
          note(unwell, "unhealthy"),
        ),
        tile("policies", dump.policies.length, "policy", "policies"),
        tile(
          "certificates",
          dump.certificates.length,
          "certificate",
          "certificates",
          note(ending, "expiring"),
        ),
      ),
    ),
  ];
}
