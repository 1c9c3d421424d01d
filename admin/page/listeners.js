// Listeners and the sockets they are on.

import { link, properties, raw } from "./describe.js";
import { code, el, facts, section, tag } from "./dom.js";
import { health } from "./health.js";
import { listView } from "./list.js";
import { to } from "./place.js";
import { store } from "./store.js";
import { counted } from "./text.js";

export const title = "Listeners";

export function create(watch) {
  // The state of sockets changes without a new configuration.
  const watchBoth = (draw) => {
    const stops = [watch(draw), health.watch(() => store.dump && draw(store.dump))];
    return () => stops.forEach((stop) => stop());
  };
  return listView(OPTIONS, { rows, watch: watchBoth });
}

/** Listeners with their socket, why it is down if it is, and their number of rules. */
function rows(dump) {
  const { bindsDown = [] } = (health.known ?? dump).runtime;
  const reasons = new Map(bindsDown.map(({ bind, reason }) => [bind, reason]));
  const rules = new Map();
  for (const { listener } of dump.routes) rules.set(listener, (rules.get(listener) ?? 0) + 1);
  return dump.listeners.map((listener) => ({
    ...listener,
    socket: socket(dump.bindsByKey.get(listener.bind)),
    down: reasons.get(listener.bind),
    rules: rules.get(listener.key) ?? 0,
  }));
}

function socket(bind) {
  if (!bind) return "";
  const address = bind.address.includes(":") ? `[${bind.address}]` : bind.address;
  return `${bind.transport} ${address}:${bind.port}`;
}

function state({ down }) {
  return down ? tag("Down", "bad") : tag("Up", "good");
}

const OPTIONS = {
  view: "listeners",
  noun: "listener",
  nouns: "listeners",
  hint: "gateway, name, host, port …",
  key: (listener) => listener.key,
  words: (listener) => JSON.stringify(listener),
  columns: [
    {
      title: "Listener",
      cell: (it) => el("span", { class: "key" }, it.name),
      sort: (it) => it.name,
    },
    {
      title: "Gateway",
      cell: (it) => el("span", { class: "key" }, it.gateway),
      sort: (it) => it.gateway,
      spare: true,
    },
    { title: "Socket", cell: (it) => code(it.socket), sort: (it) => it.socket },
    { title: "State", cell: state, sort: (it) => state(it).textContent },
    { title: "Protocol", cell: (it) => tag(it.protocol), sort: (it) => it.protocol },
    { title: "Hosts", cell: (it) => code(it.hostname ?? "*"), sort: (it) => it.hostname ?? "" },
    { title: "Rules", cell: (it) => String(it.rules), sort: (it) => it.rules, number: true },
  ],
  details,
  none: [
    "No listener is loaded.",
    "The configuration has no valid Gateway of the gateway's class. See the gateway's log for the reason.",
  ],
};

function details(listener) {
  const { certificates = [], ...tls } = listener.tls ?? {};
  const { socket, down, rules, ...plain } = listener;
  const policies = store.dump.policies.filter(({ target }) => concerns(target, listener));
  return [
    `Listener ${listener.name}`,
    facts([
      ["gateway", listener.gateway],
      ["socket", code(socket)],
      ["state", [state(listener), down && ` ${down}`].filter(Boolean)],
      ["protocol", listener.protocol],
      ["hosts", code(listener.hostname ?? "*")],
      ["rules", el("a", { href: to("routes", { q: listener.key }) }, counted(rules, "rule"))],
    ]),
    listener.tls && section("TLS", properties(tls), certificates.map(certificate)),
    policies.length > 0 &&
      section(
        "Policies",
        el(
          "ul",
          { class: "plain" },
          policies.map(({ key }) => el("li", {}, link("policies", key))),
        ),
      ),
    raw(plain),
  ];
}

function concerns(target, listener) {
  return (
    target.listener === listener.key ||
    target.gateway === listener.gateway ||
    (target.listenerSet && listener.key.startsWith(`ListenerSet/${target.listenerSet}/`))
  );
}

function certificate(fingerprint) {
  const found = store.dump.certificates.find((it) => it.fingerprint === fingerprint);
  return el(
    "p",
    {},
    "Certificate ",
    link("certificates", fingerprint, found?.subject || fingerprint),
  );
}
