// What the page may do, and how often it asks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { until, visit } from "./support/browser.js";
import { gateway } from "./support/gateway.js";
import { LISTENERS, world } from "./support/world.js";

const everything = { configuration: world, listeners: LISTENERS };

test("every file of the page has a policy that lets nothing in from elsewhere", async (t) => {
  const it = await gateway(t, everything);
  const files = new Set(["/"]);
  const page = await visit(t, it);
  page.on("request", (request) => files.add(new URL(request.url()).pathname));
  await page.reload();
  await page.locator("#state").getByText("Ready").waitFor();
  const own = [...files].filter((path) => path === "/" || path.startsWith("/page/"));
  assert.ok(own.length > 10, own.join());
  for (const path of own) {
    const { status, headers } = await it.admin(path);
    assert.equal(status, 200, path);
    const policy = headers["content-security-policy"];
    assert.match(policy, /^default-src 'none'; script-src 'self';/, path);
    assert.ok(!policy.includes("unsafe"), path);
    assert.match(policy, /require-trusted-types-for 'script'/, path);
    assert.equal(headers["x-content-type-options"], "nosniff", path);
  }
});

test("the checks of the admin server hold for the page too", async (t) => {
  const it = await gateway(t, everything);
  const refused = async (options) => assert.equal((await it.admin("/", options)).status, 403);
  await refused({ headers: { host: "evil.example" } });
  await refused({ headers: { origin: "http://evil.example" } });
  assert.equal((await it.admin("/", { method: "POST" })).status, 405);
  assert.equal((await it.admin("/?x=1")).status, 400);
  assert.equal((await it.admin("/page/")).status, 404);
  assert.equal((await it.admin("/page/../main.js")).status, 404);
  const head = await it.admin("/", { method: "HEAD" });
  assert.deepEqual([head.status, head.body], [200, ""]);
});

test("what the policy forbids does not happen", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, {
    expected: ["Content Security Policy", "TrustedHTML", "Trusted Type"],
  });
  await page.locator("#state").getByText("Ready").waitFor();
  const thrown = await page.evaluate(() => {
    try {
      document.createElement("div").innerHTML = "<b>bold</b>";
      return "";
    } catch (error) {
      return error.name;
    }
  });
  assert.equal(thrown, "TypeError");
  const violated = await until("it is reported", () =>
    page.evaluate(() => globalThis.violations.splice(0)),
  );
  assert.match(violated.join(), /require-trusted-types-for/);
});

/** What the page asks: how often by path, and what of it is not answered yet. */
function watching(page) {
  const watch = { asked: new Map(), open: new Set() };
  page.on("request", (request) => {
    const { pathname, search } = new URL(request.url());
    watch.asked.set(pathname + search, (watch.asked.get(pathname + search) ?? 0) + 1);
    watch.open.add(request);
  });
  for (const end of ["requestfinished", "requestfailed"])
    page.on(end, (request) => watch.open.delete(request));
  return watch;
}

/** Lets this many seconds of the page's own clock pass, each with its answers; returns what was asked. */
async function pass(page, watch, seconds) {
  watch.asked.clear();
  for (let passed = 0; passed < seconds; passed++) {
    await page.clock.runFor(1000);
    await settled(watch);
  }
  return [...watch.asked];
}

function settled(watch) {
  return until("all is answered", () => watch.open.size === 0);
}

for (const view of ["overview", "backends", "tasks", "memory"]) {
  test(`${view} asks for nothing more often than each 5 s, and not when nobody looks`, async (t) => {
    const it = await gateway(t, everything);
    const page = await visit(t, it, { hash: `#${view}`, clock: true });
    const watch = watching(page);
    await page.locator("#state").getByText("Ready").waitFor();
    const asked = await pass(page, watch, 20);
    assert.ok(asked.length > 0);
    // Four spaces of 5 s have five ends.
    for (const [path, times] of asked) assert.ok(times <= 5, `${path}: ${times} times in 20 s`);

    const pause = page.getByRole("button", { name: "Pause updates" });
    await pause.click();
    await settled(watch);
    assert.deepEqual(await pass(page, watch, 20), [], "paused");

    await hide(page, true);
    await pause.click();
    assert.deepEqual(await pass(page, watch, 20), [], "hidden");
    await hide(page, false);
    const again = await pass(page, watch, 10);
    assert.ok(again.length > 0, "it is looked at again");
  });
}

for (const view of ["overview", "tasks"]) {
  test(`${view} that opens in a hidden tab asks once it is seen`, async (t) => {
    const it = await gateway(t, everything);
    const page = await visit(t, it, { hash: `#${view}`, clock: true, hidden: true });
    const watch = watching(page);
    await page.locator("#state").getByText("Connecting…").waitFor();
    await page.getByRole("heading", { level: 1 }).waitFor();
    assert.deepEqual(await pass(page, watch, 20), [], "hidden");
    await hide(page, false);
    const asked = await pass(page, watch, 10);
    assert.ok(asked.length > 0, "it is looked at");
    await page.locator("#state").getByText("Ready", { exact: true }).waitFor();
  });
}

test("a view that is opened during a pause is drawn, once", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { clock: true });
  const watch = watching(page);
  await page.locator("#state").getByText("Ready").waitFor();
  await page.getByRole("button", { name: "Pause updates" }).click();
  await page.getByRole("link", { name: "Tasks", exact: true }).click();
  await page.locator("main").getByText("Shard 0", { exact: true }).waitFor();
  await settled(watch);
  assert.deepEqual(await pass(page, watch, 20), []);
});

function hide(page, hidden) {
  return page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}
