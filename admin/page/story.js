// A traced request, or TCP, TLS or UDP connection, drawn event by event.

import { bar, code, el, facts, table, tag } from "./dom.js";
import { link } from "./describe.js";
import { to } from "./place.js";
import { count, counted, micros } from "./text.js";

/** Tone by severity. */
const TONES = { success: "good", info: "plain", warn: "warn", error: "bad" };

export class Story {
  request;
  /** The `connectionStarted` event of a connection. */
  connection;
  finished;
  outcome = "";
  tone = "plain";
  #events = [];
  #head = el("div", { class: "head" });
  #steps = el("ol", { class: "steps" });

  constructor(id, shard) {
    this.id = id;
    this.shard = shard;
    this.node = el(
      "article",
      { class: "story", "aria-label": "The request" },
      this.#head,
      this.#steps,
    );
  }

  /** One-line title. */
  get title() {
    const { request, connection } = this;
    if (request) return `${request.method} ${request.host}${request.path}`;
    if (!connection) return "Request";
    return `${connection.protocol} ${connection.serverName ?? connection.client}`;
  }

  /** Adds an event. */
  take(event) {
    const { message } = event;
    if (message.type === "requestSnapshot") this.request = message;
    if (message.type === "connectionStarted") this.#connect(message);
    if (message.type === "requestFinished" || message.type === "connectionFinished")
      this.#finish(event);
    const step = drawn(event);
    this.#events.push({ event, step });
    this.#steps.append(step.node);
    this.#drawHead();
    this.#drawTimes();
  }

  #connect(message) {
    this.connection = message;
    this.node.setAttribute("aria-label", "The connection");
  }

  #finish({ message, severity, eventEnd }) {
    this.finished = { durationMicros: eventEnd, ...message };
    this.tone = severity === "info" ? "good" : TONES[severity];
    this.outcome = message.status === undefined ? "closed" : String(message.status || "no response");
    if (message.status >= 500) this.tone = "bad";
    else if (message.status >= 400) this.tone = "warn";
  }

  #drawHead() {
    const { request, connection, finished } = this;
    const rows = finished && [
      ["duration", micros(finished.durationMicros)],
      [
        "backend time",
        finished.upstreamMicros !== undefined && micros(finished.upstreamMicros),
      ],
      ["rule", finished.route],
      ["backend", finished.backend],
      ["endpoint", finished.endpoint],
      ["retries", finished.retries > 0 && count(finished.retries)],
      ["bytes", `${count(finished.bytesIn)} in, ${count(finished.bytesOut)} out`],
      ["failure", finished.reason],
    ];
    this.#head.replaceChildren(
      el("h2", {}, finished && tag(this.outcome, this.tone), " ", this.title),
      el(
        "p",
        { class: "muted" },
        [(request ?? connection)?.protocol, `shard ${this.shard}`, this.id && `id ${this.id}`]
          .filter(Boolean)
          .join(" · "),
      ),
      ...(rows ? [facts(rows)] : []),
    );
  }

  /** Scales the bars to the total time known so far. */
  #drawTimes() {
    const whole = Math.max(1, ...this.#events.map(({ event }) => event.eventEnd));
    for (const { event, step } of this.#events) {
      const start = (event.eventStart / whole) * 100;
      const width = ((event.eventEnd - event.eventStart) / whole) * 100;
      step.bar.style.setProperty("margin-left", `${Math.min(start, 99)}%`);
      step.bar.style.setProperty("width", `${width}%`);
    }
  }
}

/** Renders an event as a step. */
function drawn({ eventStart, eventEnd, severity, message }) {
  const draw = STEPS[message.type] ?? unknown;
  const { title, content = [] } = draw(message);
  const took = eventEnd > eventStart ? `took ${micros(eventEnd - eventStart)}` : "";
  const shown = el("span", { class: `took ${TONES[severity] ?? "plain"}` });
  const node = el(
    "li",
    { class: `step ${TONES[severity] ?? "plain"}` },
    el(
      "div",
      { class: "when" },
      el("span", {}, `+${micros(eventStart)}`),
      el("span", { class: "muted" }, took),
    ),
    el(
      "div",
      { class: "what" },
      el("h3", {}, title),
      el("div", { class: "track", "aria-hidden": "true" }, shown),
      content,
    ),
  );
  return { node, bar: shown };
}

/** An event type of a newer gateway. */
function unknown(message) {
  return {
    title: `${message.type} (unknown event type)`,
    content: el("pre", { tabindex: "0" }, JSON.stringify(message, null, 2)),
  };
}

const STEPS = {
  connectionStarted: ({ client, bind, protocol, serverName, configuration }) => ({
    title: `${protocol} connection started`,
    content: facts([
      ["client", code(client)],
      ["server name", serverName && code(serverName)],
      ["bind", code(bind)],
      ["configuration", `number ${configuration}`],
    ]),
  }),
  connectionFinished: ({ bytesIn, bytesOut, reason }) => ({
    title: reason ? `Connection failed: ${reason}` : "Connection closed",
    content: el("p", {}, `${count(bytesIn)} bytes in, ${count(bytesOut)} out`),
  }),
  requestStarted: ({ client, bind, configuration }) => ({
    title: "Request started",
    content: facts([
      ["client", code(client)],
      ["bind", code(bind)],
      ["configuration", `number ${configuration}`],
    ]),
  }),
  requestSnapshot: ({ method, path, protocol, headers }) => ({
    title: ["Request head: ", code(`${method} ${path} ${protocol}`)],
    content: headerTable("Request headers", headers),
  }),
  listenerSelection,
  routeSelection,
  policySelection: ({ policies }) => ({
    title: policies.length > 0 ? "Effective policies and filters" : "No policies or filters",
    content: el(
      "span",
      { class: "tags" },
      policies.map((name) => tag(name)),
    ),
  }),
  policy: ({ kind, outcome, detail }) => ({
    title: [code(kind), " ", tag(outcome, outcome === "applied" ? "good" : "plain")],
    content: detail ? el("p", {}, detail) : [],
  }),
  authorizationResult: ({ by, allowed, detail }) => ({
    title: [code(by), " ", tag(allowed ? "allowed" : "denied", allowed ? "good" : "bad")],
    content: detail ? el("p", {}, detail) : [],
  }),
  backendSelection,
  backendCallStart: ({ attempt, endpoint, reused, connectMicros }) => ({
    title: [`Attempt ${attempt}: `, code(endpoint)],
    content: el(
      "p",
      {},
      reused
        ? "On a pooled connection."
        : `On a new connection${connectMicros === undefined ? "" : `, established in ${micros(connectMicros)}`}.`,
    ),
  }),
  backendCallResult: ({ attempt, endpoint, status, reason }) => ({
    title: [
      `Attempt ${attempt}: `,
      code(endpoint),
      status === undefined ? " failed" : ` status ${status}`,
    ],
    content: reason ? el("p", {}, reason) : [],
  }),
  retry: ({ retried, reason }) => ({
    title: retried ? "Retried" : "Not retried",
    content: el("p", {}, reason),
  }),
  responseSnapshot: ({ status, headers }) => ({
    title: `Response head: ${status}`,
    content: headerTable("Response headers", headers),
  }),
  requestFinished: ({ status, reason }) => ({
    title: status === 0 ? "Finished without a response" : `Finished with status ${status}`,
    content: reason ? el("p", {}, reason) : [],
  }),
};

function listenerSelection({ host, selected, candidates }) {
  const rows = candidates.map(({ listener, hostname, selected }) => [
    link("listeners", listener),
    code(hostname),
    selected ? tag("selected", "good") : tag("not selected"),
  ]);
  const columns = [{ title: "Listener" }, { title: "Hosts" }, { title: "Outcome" }];
  const none = host
    ? ["No listener for host ", code(host)]
    : "No listener for requests without a host";
  return {
    title: selected ? ["Listener ", code(selected)] : none,
    content:
      rows.length > 0 ? table(`Candidate listeners for ${host || "no host"}`, columns, rows) : [],
  };
}

const OUTCOMES = {
  selected: ["selected", "good"],
  shadowed: ["matches, but shadowed", "warn"],
  lost: ["no match", "plain"],
};

function routeSelection({ selected, candidates, truncated }) {
  const rows = candidates.map(({ route, matchIndex, outcome, reason }) => [
    el("a", { href: to("routes", { q: route }), class: "key" }, route),
    String(matchIndex),
    tag(...(OUTCOMES[outcome] ?? [outcome])),
    reason || (outcome === "selected" ? "best match" : ""),
  ]);
  const columns = [
    { title: "Rule" },
    { title: "Match", number: true },
    { title: "Outcome" },
    { title: "Reason" },
  ];
  return {
    title: selected ? ["Rule ", code(selected)] : "No rule matches",
    content: [
      rows.length > 0 && table("Candidate rules", columns, rows),
      truncated && el("p", { class: "muted" }, "The list is truncated."),
    ].filter(Boolean),
  };
}

function backendSelection({ backend, unresolved, selected, endpoints, truncated }) {
  if (unresolved) return { title: [code(backend), ` cannot be resolved: ${unresolved}`], content: [] };
  const best = Math.max(0, ...endpoints.map(({ score }) => score));
  const rows = endpoints.map((it) => [
    code(it.endpoint),
    [
      bar(best > 0 ? it.score / best : 0, it.endpoint === selected ? "good" : "plain"),
      " ",
      score(it.score),
    ],
    it.health.toFixed(2),
    it.latencyMs > 0 ? `${it.latencyMs.toFixed(2)} ms` : "–",
    count(it.inFlight),
    count(it.weight),
    el(
      "span",
      { class: "tags" },
      it.endpoint === selected && tag("selected", "good"),
      it.ejected && tag("ejected", "bad"),
      it.tried && tag("already tried", "warn"),
    ),
  ]);
  const columns = ["Endpoint", "Score", "Health", "Latency", "In flight", "Weight", "Note"];
  return {
    title: selected
      ? ["Endpoint ", code(selected), " of ", code(backend)]
      : ["No available endpoint of ", code(backend)],
    content: [
      rows.length > 0 &&
        table(
          `Endpoints of ${backend}`,
          columns.map((title, index) => ({ title, number: index > 0 && index < 6 })),
          rows,
        ),
      truncated && el("p", { class: "muted" }, "The list is truncated."),
    ].filter(Boolean),
  };
}

/** Scores range from below one to tens of thousands. */
function score(number) {
  return number >= 100 ? count(Math.round(number)) : number.toPrecision(3);
}

function headerTable(caption, headers) {
  if (headers.length === 0) return [];
  const rows = headers.map(([name, value]) => [code(name), code(value)]);
  return el(
    "details",
    {},
    el("summary", {}, counted(headers.length, "header")),
    table(caption, [{ title: "Header" }, { title: "Value" }], rows),
  );
}
