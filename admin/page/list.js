// A list with search, sorting, pages, and the details of one entry beside it. Only one page is in the
// document, so that thousands of entries cost no more than a hundred.

import { el, empty } from "./dom.js";
import { place, rename, to } from "./place.js";
import { count } from "./text.js";

/** Rows per page. */
const PAGE_ROWS = 100;

/**
 * A list.
 *
 * - `view`: the view's name in the URL;
 * - `noun`, `nouns`: name of an entry, singular and plural;
 * - `columns`: `title`, `cell(row)`, and optionally `number`, `sort(row)`, `wide` (takes the remaining
 *   width) and `spare` (hidden while details are open);
 * - `words(row)`: searchable text; `key(row)`: unique key;
 * - `details(row)`: title and nodes of the details;
 * - `filters`: `label` and `test(row)` of checkboxes that filter the list;
 * - `none`: title and advice for an empty list.
 */
export class List {
  #options;
  #entries = [];
  #shown = [];
  #page = 0;
  #sorting = { column: undefined, descending: false };
  #current;
  #opened;
  #node;
  #search;
  #boxes;
  #found = el("p", { class: "found", role: "status" });
  #body = el("div", { class: "body" });
  #pane = el("aside", { class: "pane", "aria-label": "Details", hidden: true });

  constructor(options) {
    this.#options = options;
    this.#search = el("input", {
      type: "search",
      id: "search",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: options.hint,
      on: { input: () => this.#searched() },
    });
    this.#boxes = (options.filters ?? []).map(({ label, test }) => {
      const box = el("input", { type: "checkbox", on: { change: () => this.#narrow() } });
      return { box, test, node: el("label", { class: "check" }, box, label) };
    });
    const tools = el(
      "div",
      { class: "tools", role: "search" },
      el("label", { for: "search" }, `Search ${options.nouns}`),
      this.#search,
      this.#boxes.map(({ node }) => node),
      this.#found,
    );
    this.#node = el(
      "div",
      { class: "list" },
      el("div", { class: "side" }, tools, this.#body),
      this.#pane,
    );
    this.#body.addEventListener("keydown", (event) => this.#walk(event));
    this.#pane.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#close();
    });
  }

  get node() {
    return this.#node;
  }

  /** Applies the parameters of the URL: search and open entry. */
  turnTo(parameters) {
    const query = parameters.get("q") ?? "";
    if (this.#search.value !== query) this.#search.value = query;
    const before = this.#opened;
    this.#opened = parameters.get("key") ?? undefined;
    this.#current = this.#opened ?? this.#current;
    this.#narrow({ keepPage: before !== undefined || this.#opened !== undefined });
    this.#open();
    if (this.#opened !== undefined && this.#opened !== before) {
      this.#pane.querySelector("h2")?.focus();
    } else if (this.#opened === undefined && before !== undefined) {
      this.#rowLink(before)?.focus();
    }
  }

  /** Replaces the entries; keeps page and focus. */
  update(rows, configuration) {
    const { key, words } = this.#options;
    const before = new Map(this.#entries.map((entry) => [entry.key, entry]));
    const entries = rows.map((row) => {
      const state = `${configuration} ${JSON.stringify(row)}`;
      const old = before.get(key(row));
      if (old?.state === state) return old;
      return { row, state, key: key(row), words: words(row).toLowerCase() };
    });
    const same = entries.every((entry, index) => entry === this.#entries[index]);
    if (same && entries.length === this.#entries.length && this.#body.hasChildNodes()) return;
    this.#entries = entries;
    this.#narrow({ keepPage: true });
    this.#open();
  }

  #searched() {
    rename(this.#options.view, { q: this.#search.value, key: this.#opened });
    this.#narrow();
  }

  #narrow({ keepPage = false } = {}) {
    const wanted = this.#search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const tests = this.#boxes.filter(({ box }) => box.checked);
    this.#shown = this.#entries.filter(
      (entry) =>
        wanted.every((word) => entry.words.includes(word)) &&
        tests.every(({ test }) => test(entry.row)),
    );
    this.#sort();
    if (!keepPage) this.#page = 0;
    this.#findPage();
    this.#draw();
  }

  #sort() {
    const { column, descending } = this.#sorting;
    if (!column) return;
    const sign = descending ? -1 : 1;
    const value = new Map(this.#shown.map((entry) => [entry, column.sort(entry.row)]));
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    this.#shown = this.#shown.toSorted((a, b) => sign * compare(value.get(a), value.get(b)));
  }

  /** Selects the page of the entry that the URL names. */
  #findPage() {
    const last = Math.max(0, Math.ceil(this.#shown.length / PAGE_ROWS) - 1);
    const at = this.#shown.findIndex(({ key }) => key === this.#opened);
    if (at >= 0 && this.#drawnKey !== this.#opened) this.#page = Math.floor(at / PAGE_ROWS);
    this.#drawnKey = this.#opened;
    this.#page = Math.min(this.#page, last);
  }
  #drawnKey;

  #draw() {
    const focused = this.#focus();
    const { nouns, noun, none } = this.#options;
    const [shown, all] = [this.#shown.length, this.#entries.length];
    const name = all === 1 ? noun : nouns;
    this.#found.textContent =
      shown === all ? `${count(all)} ${name}` : `${count(shown)} of ${count(all)} ${name}`;
    if (all === 0) {
      this.#body.replaceChildren(empty(...none));
    } else if (shown === 0) {
      this.#body.replaceChildren(
        empty(`No matching ${nouns}.`, "Shorten or clear the search."),
      );
    } else {
      this.#body.replaceChildren(this.#table(), this.#pager());
    }
    focused();
  }

  /** Returns a function that restores the focus after a redraw. */
  #focus() {
    const active = document.activeElement;
    if (!this.#body.contains(active)) return () => {};
    const id = active.id;
    const key = active.closest("tr")?.dataset.key;
    return () => {
      const again = key === undefined ? id && document.getElementById(id) : this.#rowLink(key);
      (again || this.#body.querySelector("[tabindex='0']"))?.focus({ preventScroll: true });
    };
  }

  #table() {
    const { columns, nouns } = this.#options;
    const first = this.#page * PAGE_ROWS;
    const entries = this.#shown.slice(first, first + PAGE_ROWS);
    if (!entries.some(({ key }) => key === this.#current)) this.#current = entries[0].key;
    return el(
      "div",
      { class: "scroll" },
      el(
        "table",
        { class: "rows", "aria-rowcount": this.#shown.length + 1 },
        el("caption", { class: "hidden" }, nouns),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            columns.map((column, index) => this.#heading(column, index)),
          ),
        ),
        el(
          "tbody",
          {},
          entries.map((entry, index) => this.#row(entry, first + index)),
        ),
      ),
    );
  }

  #heading(column, index) {
    const attributes = { scope: "col", class: tone(column) };
    if (!column.sort) return el("th", attributes, column.title);
    const sorted = this.#sorting.column === column;
    const order = sorted ? (this.#sorting.descending ? "descending" : "ascending") : "none";
    const button = el(
      "button",
      {
        type: "button",
        class: "sort",
        id: `sort-${index}`,
        on: { click: () => this.#sortBy(column) },
      },
      column.title,
      el(
        "span",
        { class: "arrow", "aria-hidden": "true" },
        { none: "↕", ascending: "▲", descending: "▼" }[order],
      ),
    );
    return el("th", { ...attributes, "aria-sort": order }, button);
  }

  /** Cycles through one order, the other, and unsorted. */
  #sortBy(column) {
    const { column: before, descending } = this.#sorting;
    const first = column.number === true;
    if (before !== column) this.#sorting = { column, descending: first };
    else if (descending === first) this.#sorting = { column, descending: !first };
    else this.#sorting = { column: undefined, descending: false };
    this.#narrow();
  }

  #row({ row, key }, index) {
    const { columns, view } = this.#options;
    const open = key === this.#opened;
    const link = el(
      "a",
      {
        href: to(view, { q: this.#search.value, key }),
        tabindex: key === this.#current ? "0" : "-1",
        "aria-current": open && "true",
      },
      columns[0].cell(row),
    );
    const others = columns.slice(1).map((column) => {
      return el("td", { class: tone(column) }, column.cell(row));
    });
    const click = (event) => {
      if (event.target.closest("a") === null && String(getSelection()) === "") link.click();
    };
    const cells = [el("th", { scope: "row" }, link), others];
    return el(
      "tr",
      { "data-key": key, "aria-rowindex": index + 2, class: open && "open", on: { click } },
      cells,
    );
  }

  #pager() {
    const all = this.#shown.length;
    const first = this.#page * PAGE_ROWS;
    if (all <= PAGE_ROWS) return el("p", { class: "pager" });
    const step = (label, id, page, possible) =>
      el(
        "button",
        { type: "button", id, disabled: !possible, on: { click: () => this.#turn(page) } },
        label,
      );
    const last = Math.min(all, first + PAGE_ROWS);
    return el(
      "nav",
      { class: "pager", "aria-label": "Pages" },
      step("Previous", "page-previous", this.#page - 1, this.#page > 0),
      el("span", {}, `${count(first + 1)}–${count(last)} of ${count(all)}`),
      step("Next", "page-next", this.#page + 1, last < all),
    );
  }

  #turn(page) {
    this.#page = page;
    this.#draw();
    this.#body.querySelector(".scroll").scrollTop = 0;
  }

  /** Moves the focus between rows with the arrow keys, Home and End. */
  #walk(event) {
    const links = [...this.#body.querySelectorAll("tbody tr > th > a")];
    const at = links.indexOf(event.target);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 };
    const next = links[steps[event.key]];
    if (at < 0 || !next) return;
    event.preventDefault();
    links[at].tabIndex = -1;
    next.tabIndex = 0;
    this.#current = next.closest("tr").dataset.key;
    next.focus();
  }

  #rowLink(key) {
    return this.#body.querySelector(`tr[data-key="${CSS.escape(key)}"] > th > a`);
  }

  #open() {
    const entry = this.#entries.find(({ key }) => key === this.#opened);
    this.#pane.hidden = this.#opened === undefined;
    this.#node.classList.toggle("split", !this.#pane.hidden);
    if (this.#pane.hidden || (this.#drawn === entry && this.#pane.hasChildNodes())) return;
    this.#drawn = entry;
    const [title, ...content] = entry ? this.#options.details(entry.row) : this.#gone();
    const close = el("a", { class: "button", href: this.#closed() }, "Close");
    const head = el("div", { class: "head" }, el("h2", { tabindex: "-1" }, title), close);
    this.#pane.replaceChildren(head, ...content.flat(Infinity).filter(Boolean));
  }
  #drawn;

  #gone() {
    const { noun } = this.#options;
    const advice = "It may have been removed from the configuration, or the link may be outdated.";
    return [`No such ${noun}`, empty(`No ${noun} with this key is loaded.`, advice)];
  }

  #closed() {
    return to(this.#options.view, { q: this.#search.value });
  }

  #close() {
    location.hash = this.#closed();
  }
}

function tone({ number, wide, spare }) {
  return (
    [number && "number", wide && "wide", spare && "spare"].filter(Boolean).join(" ") || undefined
  );
}

/** A view of one list with the entries `rows(dump)`. */
export function listView(options, { rows, watch }) {
  const list = new List(options);
  const stop = watch((dump) => list.update(rows(dump), dump.version.configuration));
  list.turnTo(place().parameters);
  return { node: list.node, turnTo: (parameters) => list.turnTo(parameters), stop };
}
