// The state of the gateway, polled while the page is visible.

import { json } from "./api.js";
import { poll } from "./poll.js";
import { load, loadEndpoints, store, tell } from "./store.js";

/** Polling interval: 5 s. The gateway only reads counters for it. */
const SECONDS = 5;

const listeners = new Set();

/** `known` is the last response; `error` is set where the last request failed. */
export const health = {
  known: undefined,
  error: undefined,
  /** Calls `listener` now and after each poll; returns a function that unsubscribes. */
  watch(listener) {
    listeners.add(listener);
    listener();
    return () => listeners.delete(listener);
  },
};

/** Starts polling, and reloads the configuration when its number changes. */
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
