// Talks to the admin server that this page came from.

/** An answer later than this is none: 60 s. */
const PATIENCE_MILLIS = 60_000;

/** Something failed; `advice` says what to do next. */
export class Failure extends Error {
  constructor(message, advice, status = 0) {
    super(message);
    this.advice = advice;
    this.status = status;
  }
}

/** The JSON at a path. */
export async function json(path, options) {
  return (await whole(path, options)).json();
}

/** The text at a path, without the end of its last line. */
export async function text(path, options) {
  return (await (await whole(path, options)).text()).trimEnd();
}

/** The bytes at a path. */
export async function bytes(path, options) {
  return (await whole(path, options)).arrayBuffer();
}

/** The answer, read to its end here, so that one that breaks off is a failure like any other. */
async function whole(path, { method, signal, patience = PATIENCE_MILLIS } = {}) {
  const signals = [AbortSignal.timeout(patience), ...(signal ? [signal] : [])];
  const response = await answered(path, { method, signal: AbortSignal.any(signals) });
  try {
    return new Response(await response.arrayBuffer());
  } catch (error) {
    throw unanswered(error, "The answer broke off.");
  }
}

/**
 * The events of a stream: `null` once it is armed, then each event. The gateway watches until the
 * stream is over, so it is ended however the reading of it ends.
 */
export async function* events(path, signal) {
  const response = await answered(path, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        throw unanswered(error, "The trace broke off.");
      });
      if (done) return;
      const lines = (waiting + value).split("\n");
      waiting = lines.pop();
      for (const line of lines) {
        if (line === ": ready") yield null;
        if (line.startsWith("data: ")) yield JSON.parse(line.slice("data: ".length));
      }
    }
  } finally {
    // A stream that broke off has nothing left to end.
    reader.cancel().catch(() => {});
  }
}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, cache: "no-store", redirect: "error" });
  } catch (error) {
    throw unanswered(error, "The admin server does not answer.");
  }
  if (!response.ok) throw refused(response.status, await response.text().catch(() => ""));
  return response;
}

function unanswered(error, message) {
  if (error.name === "AbortError") return error;
  if (error.name === "TimeoutError") {
    return new Failure(
      "The admin server takes too long to answer.",
      "The machine may be overloaded. Look at Tasks for a shard that is stuck, or try again.",
    );
  }
  return new Failure(
    message,
    "Check that the gateway runs and, where you reach it by a port-forward, that this is still open.",
  );
}

/** The status of an admin server that has enough to do already. */
export const BUSY = 503;

/** What to do about each status, beside what the server says of it. */
const ADVICE = {
  400: "Change what you asked for, and try again.",
  403: "Open this page by an address or by localhost, or start the gateway with --admin-host.",
  404: "The gateway was exchanged for another version: load this page again.",
  409: "Wait until the other one is done, then try again.",
  [BUSY]: "The admin server is busy: try again in some seconds.",
};

function refused(status, body) {
  let said = body.trim();
  try {
    said = JSON.parse(body).error ?? said;
  } catch {
    // Not all endpoints refuse in JSON.
  }
  const message = said || `The admin server answered ${status}.`;
  return new Failure(message, ADVICE[status] ?? "The gateway's own log may say more.", status);
}
