// Backends and services with the state of their endpoints.

import { link, properties, raw } from "./describe.js";
import { bar, code, el, facts, section, tag } from "./dom.js";
import { listView } from "./list.js";
import { poll } from "./poll.js";
import { loadEndpoints, routesTo, store } from "./store.js";
import { count, parts } from "./text.js";

export const title = "Backends";

/** Refresh interval of the endpoints' state: 5 s. Each shard walks its endpoints for it. */
const SECONDS = 5;

export function create(watch) {
  const view = listView(OPTIONS, { rows, watch });
  const polling = poll(SECONDS, loadEndpoints);
  return {
    ...view,
    stop() {
      polling.stop();
      view.stop();
    },
  };
}

/** One row per endpoint; one for a backend without endpoints. */
function rows(dump) {
  return [...dump.backends, ...dump.services].flatMap((owner) => {
    const endpoints = owner.endpoints.length > 0 ? owner.endpoints : [undefined];
    return endpoints.map((endpoint, index) => ({ owner, endpoint, index }));
  });
}

/** The first endpoint has the backend's key, so that other views can link to it. */
function key({ owner, index }) {
  return index === 0 ? owner.key : `${owner.key} ${index}`;
}

/** Summarizes the state of an endpoint. */
export function condition(endpoint) {
  if (!endpoint) return { text: "No endpoints", tone: "bad" };
  if (endpoint.ejectedFor) {
    const { ejectedFor, ejectedShards = 0, shards } = endpoint;
    const where = shards > ejectedShards ? ` on ${ejectedShards} of ${shards} shards` : "";
    return { text: `Ejected for ${ejectedFor}${where}`, tone: "bad" };
  }
  if (endpoint.status === "NotReady") return { text: "Not ready", tone: "bad" };
  if (endpoint.status === "Draining") return { text: "Draining", tone: "warn" };
  const { state, reason = "no probe yet" } = endpoint.healthCheck ?? {};
  if (state === "Unhealthy") return { text: `Health check fails: ${reason}`, tone: "bad" };
  if (state === "Waiting") return { text: `Waits for its health check: ${reason}`, tone: "bad" };
  if (state === "Ignored") return { text: `Health check ignored: ${reason}`, tone: "warn" };
  if (endpoint.health < 0.9)
    return { text: "Failing", tone: endpoint.health < 0.5 ? "bad" : "warn" };
  if (endpoint.warmingPercent !== undefined)
    return { text: `Warming up: ${endpoint.warmingPercent} %`, tone: "plain" };
  return endpoint.requests === 0
    ? { text: "Unused", tone: "plain" }
    : { text: "Healthy", tone: "good" };
}

const OPTIONS = {
  view: "backends",
  noun: "endpoint",
  nouns: "endpoints",
  hint: "name, address, protocol …",
  key,
  words: ({ owner, endpoint }) =>
    `${owner.key} ${owner.protocol} ${JSON.stringify(endpoint)} ${condition(endpoint).text}`,
  columns: [
    { title: "Name", cell: name, sort: ({ owner }) => owner.key },
    {
      title: "Endpoint",
      cell: ({ endpoint }) => (endpoint ? code(endpoint.name) : "none"),
      sort: ({ endpoint }) => endpoint?.name ?? "",
    },
    { title: "State", cell: state, sort: ({ endpoint }) => condition(endpoint).text },
    { title: "Health", cell: health, sort: ({ endpoint }) => endpoint?.health ?? 0, number: true },
    {
      title: "Requests",
      cell: ({ endpoint }) => (endpoint ? count(endpoint.requests) : "–"),
      sort: ({ endpoint }) => endpoint?.requests ?? -1,
      number: true,
    },
    {
      title: "In flight",
      cell: ({ endpoint }) => (endpoint ? count(endpoint.inFlight) : "–"),
      sort: ({ endpoint }) => endpoint?.inFlight ?? -1,
      number: true,
      spare: true,
    },
    {
      title: "Latency",
      cell: latency,
      sort: ({ endpoint }) => endpoint?.latencyMs ?? -1,
      number: true,
    },
  ],
  filters: [
    {
      label: "Only unhealthy",
      test: ({ endpoint }) => ["warn", "bad"].includes(condition(endpoint).tone),
    },
  ],
  details,
  none: [
    "No backend is loaded.",
    "Backends and Services are loaded with the routes that reference them: check the backendRefs of your rules.",
  ],
};

function name({ owner }) {
  const { kind, namespace, name } = parts(owner.key);
  return [el("span", { class: "key" }, `${namespace}/${name}`), tag(kind)];
}

function state({ endpoint }) {
  const { text, tone } = condition(endpoint);
  return tag(text, tone);
}

function health({ endpoint }) {
  if (!endpoint) return "–";
  const tone = endpoint.health < 0.5 ? "bad" : endpoint.health < 0.9 ? "warn" : "good";
  return el("span", { class: "health" }, bar(endpoint.health, tone), endpoint.health.toFixed(2));
}

function latency({ endpoint }) {
  return endpoint && endpoint.latencyMs > 0 ? `${endpoint.latencyMs.toFixed(2)} ms` : "–";
}

function details(row) {
  const { owner, endpoint } = row;
  const { kind, namespace, name } = parts(owner.key);
  const { key: _key, endpoints, protocol, hosts, ...others } = owner;
  const routes = routesTo(store.dump, owner.key);
  return [
    `${kind} ${namespace}/${name}`,
    facts([
      ["protocol", protocol],
      ["endpoints", String(endpoints.length)],
      ["hosts", hosts && properties(hosts)],
      ...Object.entries(others).map(([name, value]) => [name, properties(value)]),
    ]),
    endpoint && section(`Endpoint ${endpoint.name}`, live(row)),
    section("Rules that reference it", ruleLinks(routes)),
    raw(owner),
  ];
}

function live(row) {
  const { endpoint } = row;
  return facts([
    ["state", state(row)],
    ["health", health(row)],
    ["latency", latency(row)],
    ["requests", count(endpoint.requests)],
    ["in flight", count(endpoint.inFlight)],
    ["consecutive failures", count(endpoint.consecutiveFailures)],
    ["weight", String(endpoint.weight)],
    ["service port", endpoint.port],
    ["configured as", endpoint.status],
  ]);
}

/** Rules that are listed; the others are a search away. */
const RULES_SHOWN = 20;

function ruleLinks(routes) {
  if (routes.length === 0) return el("p", { class: "muted" }, "None.");
  const shown = routes.slice(0, RULES_SHOWN).map(({ key }) => el("li", {}, link("routes", key)));
  const more = routes.length - shown.length;
  return [
    el("ul", { class: "plain" }, shown),
    more > 0 && el("p", { class: "muted" }, `and ${count(more)} more`),
  ];
}
