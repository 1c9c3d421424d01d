// Policies and their targets.

import { link, properties, raw } from "./describe.js";
import { el, facts, section, tag } from "./dom.js";
import { listView } from "./list.js";
import { to } from "./place.js";
import { words } from "./text.js";

export const title = "Policies";

export function create(watch) {
  return listView(OPTIONS, { rows: (dump) => dump.policies, watch });
}

const OPTIONS = {
  view: "policies",
  noun: "policy",
  nouns: "policies",
  hint: "name, target, field …",
  key: (policy) => policy.key,
  words: (policy) => JSON.stringify(policy),
  columns: [
    {
      title: "Policy",
      cell: (policy) => el("span", { class: "key" }, policy.key),
      sort: (policy) => policy.key,
    },
    {
      title: "Level",
      cell: (policy) => words(policy.target.type),
      sort: (policy) => policy.target.type,
    },
    {
      title: "Target",
      cell: (policy) => el("span", { class: "key" }, aim(policy.target)),
      sort: (policy) => aim(policy.target),
    },
    {
      title: "Sets",
      cell: (policy) =>
        el(
          "span",
          { class: "tags" },
          Object.keys(policy.spec).map((name) => tag(words(name))),
        ),
      wide: true,
      spare: true,
    },
  ],
  details,
  none: [
    "No policy is loaded.",
    "A TrafficPolicy sets authentication, limits, access log and more for a Gateway, listener, route or " +
      "backend. Without one, the defaults apply.",
  ],
};

/** The name of a policy's target. */
function aim({ type, rule, ...names }) {
  const [name] = Object.values(names);
  return type === "Rule" ? `${name}, rule ${rule}` : name;
}

function details(policy) {
  return [
    policy.key,
    facts([["target", targetLink(policy.target)]]),
    Object.entries(policy.spec).map(([name, value]) => section(words(name), properties(value))),
    raw(policy),
  ];
}

function targetLink(target) {
  const views = { Listener: "listeners", Service: "backends", Backend: "backends" };
  const text = `${words(target.type)} ${aim(target)}`;
  if (views[target.type])
    return link(views[target.type], target.listener ?? target.service ?? target.backend, text);
  const [view, query] = target.route
    ? ["routes", target.route]
    : ["listeners", target.gateway ?? target.listenerSet];
  return el("a", { href: to(view, { q: query }), class: "key" }, text);
}
