// Client of the admin server that serves this page.

/** Default timeout of a request: 60 s. */
const TIMEOUT_MILLIS = 60_000;

/** A failed request; `advice` says what to do next. */
export class Failure extends Error {
  constructor(message, advice, status = 0) {
    super(message);
    this.advice = advice;
    this.status = status;
  }
}

/** Fetches JSON. */
export async function json(path, options) {
  return (await whole(path, options)).json();
}

/** Fetches text, without its final newline. */
export async function text(path, options) {
  return (await (await whole(path, options)).text()).trimEnd();
}

/** Fetches bytes. */
export async function bytes(path, options) {
  return (await whole(path, options)).arrayBuffer();
}

/** Fetches a complete response, so that one that is cut short is a failure like any other. */
async function whole(path, { method, signal, timeout = TIMEOUT_MILLIS } = {}) {
  const signals = [AbortSignal.timeout(timeout), ...(signal ? [signal] : [])];
  const response = await request(path, { method, signal: AbortSignal.any(signals) });
  try {
    return new Response(await response.arrayBuffer());
  } catch (error) {
    throw connectionFailure(error, "The response was cut short.");
  }
}

/**
 * The events of a trace: `null` once it is active, then each event. The stream is cancelled in any
 * case, so that the gateway stops tracing.
 */
export async function* events(path, signal) {
  const response = await request(path, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        throw connectionFailure(error, "The connection was lost during the trace.");
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
    // Cancelling a failed stream is an error, which does not matter.
    reader.cancel().catch(() => {});
  }
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, cache: "no-store", redirect: "error" });
  } catch (error) {
    throw connectionFailure(error, "The admin server is unreachable.");
  }
  if (!response.ok) throw errorResponse(response.status, await response.text().catch(() => ""));
  return response;
}

function connectionFailure(error, message) {
  if (error.name === "AbortError") return error;
  if (error.name === "TimeoutError") {
    return new Failure(
      "The admin server did not respond in time.",
      "The machine may be overloaded. Check Tasks for a stuck shard, or try again.",
    );
  }
  return new Failure(
    message,
    "Check that the gateway is running and, if you use a port-forward, that it is still open.",
  );
}

/** Status of an overloaded admin server. */
export const BUSY = 503;

/** Advice by status, in addition to the server's message. */
const ADVICE = {
  400: "Correct the input and try again.",
  403: "Open this page by IP address or localhost, or start the gateway with --admin-host.",
  404: "The gateway may have been upgraded: reload this page.",
  409: "Wait until the other operation is complete, then try again.",
  [BUSY]: "The admin server is busy: try again in a few seconds.",
};

function errorResponse(status, body) {
  let reason = body.trim();
  try {
    reason = JSON.parse(body).error ?? reason;
  } catch {
    // Some endpoints respond with plain text.
  }
  const message = reason || `The admin server responded with status ${status}.`;
  return new Failure(message, ADVICE[status] ?? "See the gateway's log for details.", status);
}
