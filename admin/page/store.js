// The configuration that the gateway has loaded, and what of it belongs together.

import { json } from "./api.js";

const LISTS = [
  "binds",
  "listeners",
  "routes",
  "backends",
  "services",
  "workloads",
  "policies",
  "certificates",
];

const listeners = new Set();

/** What is known: `dump` once it was loaded, `error` where the last attempt failed. */
export const store = {
  dump: undefined,
  error: undefined,
  /** Calls `listener` now and after each change; returns what ends that. */
  watch(listener) {
    listeners.add(listener);
    listener();
    return () => listeners.delete(listener);
  },
};

/** Calls each, whatever the others throw: one view that fails must not keep the rest from news. */
export function tell(listeners) {
  for (const listener of [...listeners]) {
    try {
      listener();
    } catch (error) {
      reportError(error);
    }
  }
}

/** Loads all of it. */
export async function load() {
  try {
    const dump = await json("config_dump");
    for (const list of LISTS) dump[list] ??= [];
    store.dump = indexed(dump);
    store.error = undefined;
  } catch (error) {
    store.error = error;
  }
  tell(listeners);
}

/** Loads how the endpoints fare, and leaves the rest as it is. */
export async function loadEndpoints() {
  if (!store.dump) return;
  try {
    // One after the other: the admin server does only a few such things at a time.
    for (const list of ["backends", "services"]) {
      const { version, [list]: loaded = [] } = await json(`config_dump?type=${list}`);
      // Those of another configuration come with all of it.
      if (version.configuration === store.dump.version.configuration)
        store.dump = indexed({ ...store.dump, [list]: loaded });
    }
    store.error = undefined;
  } catch (error) {
    store.error = error;
  }
  tell(listeners);
}

function indexed(dump) {
  const byKey = (list) => new Map(list.map((it) => [it.key, it]));
  return {
    ...dump,
    listenersByKey: byKey(dump.listeners),
    bindsByKey: byKey(dump.binds),
    targetsByKey: byKey([...dump.backends, ...dump.services]),
  };
}

/** The key of what a rule's share goes to; nothing where the reference is invalid. */
export function targetKey(target) {
  return target.backend ?? target.service;
}

/** The policies that hold for a route, the narrowest first. */
export function policiesOf(dump, route) {
  const listener = dump.listenersByKey.get(route.listener);
  const targets = new Set(route.backends.map((backend) => targetKey(backend.target)));
  const holds = ({ target }) => {
    switch (target.type) {
      case "Rule":
        return route.key.startsWith(`${target.route}/`) && route.name === target.rule;
      case "Route":
        return route.key.startsWith(`${target.route}/`);
      case "Listener":
        return route.listener === target.listener;
      case "ListenerSet":
        return route.listener.startsWith(`ListenerSet/${target.listenerSet}/`);
      case "Gateway":
        return listener?.gateway === target.gateway;
      default:
        return targets.has(targetKey(target));
    }
  };
  const width = ({ target }) => WIDTHS.indexOf(target.type);
  return dump.policies.filter(holds).sort((a, b) => width(a) - width(b));
}

/** Targets of policies, the narrowest first. */
const WIDTHS = ["Rule", "Route", "Listener", "ListenerSet", "Gateway", "Service", "Backend"];

/** The routes that lead to a backend or service. */
export function routesTo(dump, key) {
  return dump.routes.filter((route) =>
    route.backends.some(({ target }) => targetKey(target) === key),
  );
}
