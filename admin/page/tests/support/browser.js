// A real browser, and a page in it that is watched: nothing it does may go wrong unseen.

import assert from "node:assert/strict";
import { after } from "node:test";
import { chromium } from "playwright-core";

/** For how long a page may take to show what it should, on a busy machine: 5 min. */
export const PATIENCE = 300_000;

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

let launched;

async function browser() {
  launched ??= chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: FLAGS,
    timeout: PATIENCE,
  });
  return launched;
}

after(async () => (await launched)?.close());

/**
 * Opens the page of a gateway. When the test is over, there must have been no error on its console but
 * those in `expected`, no request to elsewhere, and no breach of its Content-Security-Policy.
 */
export async function visit(
  t,
  gateway,
  { hash = "", expected = [], path = "/", clock = false, hidden = false, route, ...options } = {},
) {
  const context = await (
    await browser()
  ).newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const seen = watched(page, gateway.origin, expected);
  if (clock) await page.clock.install();
  if (route) await page.route(...route);
  atEnd(t, async () => {
    const violations = await page.evaluate(() => globalThis.violations).catch(() => []);
    await context.close();
    assert.deepEqual({ ...seen, violations }, { complaints: [], strangers: [], violations: [] });
  });
  await page.addInitScript(() => {
    globalThis.violations = [];
    addEventListener("securitypolicyviolation", (event) => {
      globalThis.violations.push(`${event.violatedDirective}: ${event.blockedURI || event.sample}`);
    });
  });
  if (hidden)
    await page.addInitScript(() => {
      Object.defineProperty(document, "hidden", { value: true, configurable: true });
    });
  await page.goto(`${gateway.origin}${path}${hash}`, { timeout: PATIENCE });
  return page;
}

function watched(page, origin, expected) {
  const seen = { complaints: [], strangers: [] };
  page.on("console", (message) => {
    const isExpected = expected.some((text) => message.text().includes(text));
    if (["error", "warning"].includes(message.type()) && !isExpected)
      seen.complaints.push(message.text());
  });
  page.on("pageerror", (error) => {
    if (!expected.some((text) => error.message.includes(text)))
      seen.complaints.push(String(error));
  });
  page.on("dialog", (dialog) => {
    seen.complaints.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith(`blob:${origin}/`))
      seen.strangers.push(url);
  });
  return seen;
}

const ends = new WeakMap();

/** Has something done when the test is over, what was begun last first. */
export function atEnd(t, work) {
  if (!ends.has(t)) {
    ends.set(t, []);
    t.after(async () => {
      for (const end of ends.get(t).reverse()) await end();
    });
  }
  ends.get(t).push(work);
}

/** Waits until `probe` gives something true, and returns that. */
export async function until(what, probe) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const found = await probe();
    if (found) return found;
    assert.ok(Date.now() < deadline, `never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
