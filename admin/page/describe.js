// Renders parts of the configuration, with links to the resources they reference.

import { code, el, facts, tag } from "./dom.js";
import { to } from "./place.js";
import { targetKey } from "./store.js";
import { parts, words } from "./text.js";

/** A link to the resource with this key. */
export function link(view, key, text = key) {
  return el("a", { href: to(view, { key }), class: "key" }, text);
}

/** `HTTPRoute default/shop, rule 2`. */
export function routeTitle(route) {
  const { kind, namespace, name, rest } = parts(route.key);
  const rule = route.name ? `rule ${rest[0]} “${route.name}”` : `rule ${rest[0]}`;
  return `${kind} ${namespace}/${name}, ${rule}`;
}

/** The target of a backend reference. */
export function target(it) {
  if (it.type === "Invalid") {
    const why = it.reference ? `${it.reason} ${it.reference}` : it.reason;
    return tag(`500: ${why}`, "bad");
  }
  const port = it.type === "Service" ? `:${it.port}` : "";
  return link("backends", targetKey(it), `${targetKey(it)}${port}`);
}

/** A match: method, path, headers and query. */
export function match(it) {
  const value = ({ name, type, value }) => `${name} ${type === "Exact" ? "=" : "~"} ${value}`;
  return el(
    "div",
    { class: "match" },
    it.method && tag(it.method),
    el("span", { class: "kind" }, it.path.type),
    code(it.path.value),
    (it.headers ?? []).map((header) => [
      el("span", { class: "kind" }, "header"),
      code(value(header)),
    ]),
    (it.query ?? []).map((query) => [el("span", { class: "kind" }, "query"), code(value(query))]),
  );
}

/** The first match of a rule and the number of further ones, for a list. */
export function matches(route) {
  const [first, ...more] = route.matches ?? [];
  if (!first)
    return el("span", { class: "muted" }, route.protocol === "HTTP" ? "every path" : "everything");
  return [
    match(first),
    more.length > 0 && el("span", { class: "muted" }, `and ${more.length} more`),
  ];
}

/** Renders any value generically, as pairs and lists. */
export function properties(value) {
  if (Array.isArray(value)) {
    const simple = value.every((item) => typeof item !== "object");
    if (simple)
      return value.length > 0
        ? el(
            "span",
            { class: "codes" },
            value.map((item) => code(String(item))),
          )
        : "none";
    return el(
      "ol",
      { class: "plain" },
      value.map((item) => el("li", {}, inOneLine(item) ?? properties(item))),
    );
  }
  if (value !== null && typeof value === "object") {
    return facts(Object.entries(value).map(([name, part]) => [words(name), properties(part)]));
  }
  return typeof value === "boolean" ? (value ? "yes" : "no") : code(String(value));
}

/** An object of scalars on one line: `x-seen-by: edge`, `host 10.0.0.1, port 80`. */
function inOneLine(value) {
  const pairs = Object.entries(value);
  if (pairs.some(([, part]) => typeof part === "object")) return undefined;
  if (pairs.map(([name]) => name).join() === "name,value")
    return code(`${value.name}: ${value.value}`);
  return el(
    "span",
    { class: "codes" },
    pairs.map(([name, part]) => el("span", {}, `${words(name)} `, code(String(part)))),
  );
}

/** The JSON of a resource. */
export function raw(value) {
  return el(
    "details",
    { class: "raw" },
    el("summary", {}, "As in /config_dump"),
    el("pre", { tabindex: "0" }, JSON.stringify(value, null, 2)),
  );
}
