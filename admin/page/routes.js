// Route rules.

import { link, match, matches, properties, raw, routeTitle, target } from "./describe.js";
import { code, el, empty, facts, section, table, tag } from "./dom.js";
import { listView } from "./list.js";
import { settingsTable } from "./settings.js";
import { policiesOf, store } from "./store.js";
import { parts, words } from "./text.js";

export const title = "Routes";

export function create(watch) {
  return listView(OPTIONS, { rows: (dump) => dump.routes, watch });
}

const OPTIONS = {
  view: "routes",
  noun: "rule",
  nouns: "rules",
  hint: "name, host, path, backend …",
  key: (route) => route.key,
  words: (route) => JSON.stringify(route),
  columns: [
    { title: "Rule", cell: name, sort: (route) => route.key },
    { title: "Listener", cell: listener, sort: (route) => route.listener, spare: true },
    { title: "Hosts", cell: hosts, sort: (route) => (route.hostnames ?? []).join() },
    {
      title: "Match",
      cell: matches,
      sort: (route) => route.matches?.[0]?.path.value ?? "",
      wide: true,
    },
    { title: "Backends", cell: targets, wide: true, spare: true },
  ],
  filters: [
    {
      label: "Only with an invalid backend",
      test: (route) => route.backends.some(({ target }) => target.type === "Invalid"),
    },
  ],
  details,
  none: [
    "No route is loaded.",
    "A route is loaded if its parentRef names a listener of a loaded Gateway that allows it. " +
      "`gateway check` and the gateway's log give the reason where it is not.",
  ],
};

/** `shop/cart/0`, as in logs and traces. */
function name(route) {
  const { kind, namespace, name, rest } = parts(route.key);
  return [
    el("span", { class: "key" }, `${namespace}/${name}/${rest[0]}`),
    kind !== "HTTPRoute" && tag(kind),
  ];
}

function listener(route) {
  const { name, rest } = parts(route.listener);
  return el("span", { class: "key" }, `${name}/${rest[0]}`);
}

function hosts(route) {
  const [first, ...more] = route.hostnames ?? [];
  if (!first) return el("span", { class: "muted" }, "any");
  return [
    code(first),
    more.length > 0 && el("span", { class: "muted" }, ` and ${more.length} more`),
  ];
}

function targets(route) {
  const { redirect } = route.filters ?? {};
  if (redirect) return el("span", {}, "redirect ", tag(String(redirect.status)));
  if (route.backends.length === 0) return el("span", { class: "muted" }, "none");
  const total = route.backends.reduce((sum, { weight }) => sum + weight, 0);
  return route.backends.map(({ target: to, weight }) =>
    el(
      "div",
      { class: "share" },
      to.type === "Invalid"
        ? target(to)
        : el("span", { class: "key" }, parts(to.backend ?? to.service).name),
      route.backends.length > 1 && el("span", { class: "muted" }, percent(weight, total)),
    ),
  );
}

function percent(weight, total) {
  return total === 0 ? "0 %" : `${Number(((100 * weight) / total).toFixed(1))} %`;
}

function details(route) {
  const { dump } = store;
  const listener = dump.listenersByKey.get(route.listener);
  return [
    routeTitle(route),
    facts([
      ["protocol", route.protocol],
      ["listener", link("listeners", route.listener)],
      ["gateway", listener?.gateway],
      ["hosts", properties(route.hostnames ?? [`${listener?.hostname ?? "*"} (the listener's)`])],
      [
        "created",
        route.order.created > 0 && new Date(route.order.created * 1000).toISOString(),
      ],
    ]),
    section(
      "Matches",
      (route.matches ?? []).length === 0
        ? el("p", { class: "muted" }, "Everything.")
        : route.matches.map(match),
    ),
    section("Backends", backends(route)),
    Object.entries(route.filters ?? {}).map(([filter, value]) =>
      section(capital(words(filter)), properties(value)),
    ),
    route.timeouts && section("Timeouts", properties(route.timeouts)),
    route.retry && section("Retries", properties(route.retry)),
    route.session && section("Session persistence", properties(route.session)),
    section("Settings, and the policies that they come from", settingsTable(dump, route)),
    section("Policies of its targets and backends", policies(dump, route)),
    raw(route),
  ];
}

function backends(route) {
  if (route.backends.length === 0) {
    const redirects = route.filters?.redirect !== undefined;
    return redirects
      ? el("p", { class: "muted" }, "None: the rule redirects.")
      : empty("No backend.", "Requests to this rule get status 500.");
  }
  const total = route.backends.reduce((sum, { weight }) => sum + weight, 0);
  const rows = route.backends.map((it) => [
    [target(it.target), it.filters && properties(it.filters)].filter(Boolean),
    String(it.weight),
    percent(it.weight, total),
  ]);
  const columns = [
    { title: "Backend" },
    { title: "Weight", number: true },
    { title: "Share", number: true },
  ];
  return table("Backends of the rule", columns, rows);
}

function policies(dump, route) {
  const found = policiesOf(dump, route);
  if (found.length === 0) return el("p", { class: "muted" }, "None.");
  return el(
    "ul",
    { class: "plain" },
    found.map((policy) =>
      el("li", {}, link("policies", policy.key), ` (${words(policy.target.type)})`),
    ),
  );
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}
