// The loaded configuration, with indexes and relations.

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

/** `dump` is set once it is loaded, `error` where the last request failed. */
export const store = {
  dump: undefined,
  error: undefined,
  /** Calls `listener` now and after each change; returns a function that unsubscribes. */
  watch(listener) {
    listeners.add(listener);
    listener();
    return () => listeners.delete(listener);
  },
};

/** Calls all listeners; an exception in one does not affect the others. */
export function tell(listeners) {
  for (const listener of [...listeners]) {
    try {
      listener();
    } catch (error) {
      reportError(error);
    }
  }
}

/** Loads the whole configuration. */
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

/** Reloads the state of the endpoints only. */
export async function loadEndpoints() {
  if (!store.dump) return;
  try {
    // Sequentially: the admin server limits concurrent expensive requests.
    for (const list of ["backends", "services"]) {
      const { version, [list]: loaded = [] } = await json(`config_dump?type=${list}`);
      // A new configuration is loaded as a whole.
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

/** The key of a backend reference's target; undefined where it is invalid. */
export function targetKey(target) {
  return target.backend ?? target.service;
}

/** The policies that apply to a route, the most specific first. */
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

/** Target types of policies, the most specific first. */
const WIDTHS = ["Rule", "Route", "Listener", "ListenerSet", "Gateway", "Service", "Backend"];

/** The routes that reference a backend or service. */
export function routesTo(dump, key) {
  return dump.routes.filter((route) =>
    route.backends.some(({ target }) => targetKey(target) === key),
  );
}
