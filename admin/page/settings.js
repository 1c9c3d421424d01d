// The settings in effect at a rule, and the policy that each comes from: as `gwctl config policies --rule`.

import { link } from "./describe.js";
import { code, el, table, tag } from "./dom.js";
import { policiesOf } from "./store.js";
import { words } from "./text.js";

/** Of one level each, from the widest: those of backends hold for the requests to them alone. */
const LEVELS = ["Gateway", "ListenerSet", "Listener", "Route", "Rule"];

/** Parts of a policy that set nothing at a rule. */
const NO_SETTINGS = ["precedence", "hidden", "clientCertificate", "sessionKeys", "invalidForConnections"];

/** What holds for rules for bytes too, beside limits. */
const OF_BYTES = ["accessLog", "networks", "invalid"];

/** What narrower policies add to, where a wider one overrides. */
const IN_ADDITION = ["authorization", "networks", "rateLimit"];

/** `{field, value, policy, effect}` of a rule, in the order of fields; `value` of limits and other scalars. */
export function settings(dump, route) {
  const policies = policiesOf(dump, route)
    .filter(({ target }) => LEVELS.includes(target.type))
    .reverse()
    .map((policy) => ({ policy, fields: fields(policy) }));
  const names = new Set(policies.flatMap(({ fields }) => [...fields.keys()]));
  return [...names]
    .filter((name) => applies(route, name))
    .sort()
    .flatMap((field) => {
      const setting = policies.filter(({ fields }) => fields.has(field));
      return inEffect(field, setting).map(({ policy, fields, effect }) => {
        const value = fields.get(field);
        return { field, value: typeof value === "object" ? undefined : value, policy, effect };
      });
    });
}

/** The fields of a policy; limits one by one. */
function fields({ spec: { limits = {}, ...others } }) {
  const settings = Object.entries(others).filter(([name]) => !NO_SETTINGS.includes(name));
  const limited = Object.entries(limits).map(([name, value]) => [`limits.${name}`, value]);
  return new Map([...settings, ...limited]);
}

function applies({ protocol }, field) {
  const ofRequests = ["HTTP", "GRPC"].includes(protocol);
  return ofRequests || OF_BYTES.includes(field) || field.startsWith("limits.");
}

/** Which of the policies that set a field, the widest first, are in effect, and how. */
function inEffect(field, policies) {
  const how = (list, effect) => list.map((it) => ({ ...it, effect }));
  if (field === "invalid") return how(policies, "refuses all");
  const overrides = ({ policy }) => policy.spec.precedence === "Overrides";
  const enforced = policies.filter(overrides);
  const nearest = policies.filter((it) => !overrides(it)).slice(-1);
  if (enforced.length === 0) return how(nearest, "default");
  if (field.startsWith("limits."))
    return [...how(enforced, "bound"), ...how(nearest, "within bounds")];
  if (IN_ADDITION.includes(field))
    return [...how(enforced, "overrides"), ...how(nearest, "in addition")];
  return how(enforced.slice(0, 1), "overrides");
}

/** A table of them. */
export function settingsTable(dump, route) {
  const rows = settings(dump, route).map(({ field, value, policy, effect }) => [
    words(field),
    value === undefined || typeof value === "boolean" ? "" : code(String(value)),
    tag(effect),
    [link("policies", policy.key), ` (${words(policy.target.type)})`],
  ]);
  if (rows.length === 0) return el("p", { class: "muted" }, "None: the defaults apply.");
  const columns = [
    { title: "Field" },
    { title: "Value" },
    { title: "Effect" },
    { title: "Policy" },
  ];
  return table("Settings of the rule", columns, rows);
}
