// Where one is on the page, as its address says it: `#routes?q=cart&key=…`.

/** The view and its parameters. */
export function place() {
  const [view, query = ""] = location.hash.slice(1).split("?");
  return { view: view || "overview", parameters: new URLSearchParams(query) };
}

/** The address of a view; parameters that are empty are left out. */
export function to(view, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  return query.size > 0 ? `#${view}?${query}` : `#${view}`;
}

/** Changes the address without a step in the history: for what is typed. */
export function rename(view, parameters) {
  history.replaceState(null, "", to(view, parameters));
}
