// How the gateway fares, asked for again and again as long as the page is looked at.

import { json } from "./api.js";
import { poll } from "./poll.js";
import { load, loadEndpoints, store, tell } from "./store.js";

/** How often that is: 5 s. It reads counters, and asks the shards nothing. */
const SECONDS = 5;

const listeners = new Set();

/** `known` is the last answer; `error` is set where there was none. */
export const health = {
  known: undefined,
  error: undefined,
  /** Calls `listener` now and after each answer; returns what ends that. */
  watch(listener) {
    listeners.add(listener);
    listener();
    return () => listeners.delete(listener);
  },
};

/** Begins to ask. Where the configuration is another one, or something of it is missing, it is loaded. */
export function start() {
  poll(SECONDS, async () => {
    try {
      health.known = await json("config_dump?type=runtime");
      health.error = undefined;
    } catch (error) {
      health.error = error;
    }
    tell(listeners);
    if (health.error) return;
    if (store.dump?.version.configuration !== health.known.version.configuration) await load();
    else if (store.error) await loadEndpoints();
  });
}
