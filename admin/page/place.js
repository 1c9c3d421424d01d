// The current view and its parameters in the URL fragment: `#routes?q=cart&key=…`.

/** The view and its parameters. */
export function place() {
  const [view, query = ""] = location.hash.slice(1).split("?");
  return { view: view || "overview", parameters: new URLSearchParams(query) };
}

/** The URL of a view; empty parameters are left out. */
export function to(view, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  return query.size > 0 ? `#${view}?${query}` : `#${view}`;
}

/** Replaces the URL without a history entry, for input while typing. */
export function rename(view, parameters) {
  history.replaceState(null, "", to(view, parameters));
}
