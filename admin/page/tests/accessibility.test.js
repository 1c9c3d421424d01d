// What axe-core finds wrong, in light and dark, wide and narrow.

import assert from "node:assert/strict";
import fs from "node:fs/promises";
import { createRequire } from "node:module";
import { test } from "node:test";
import { PATIENCE, until, visit } from "./support/browser.js";
import { gateway } from "./support/gateway.js";
import { LISTENERS, world } from "./support/world.js";

const axe = await fs.readFile(createRequire(import.meta.url).resolve("axe-core"), "utf8");

/** Each view, and what brings it into the state that is looked at. */
const VIEWS = {
  overview: (page) => page.getByText("rules", { exact: true }).waitFor(),
  routes: openFirst,
  listeners: openFirst,
  backends: openFirst,
  policies: openFirst,
  certificates: openFirst,
  trace: traceOne,
  logging: (page) => page.getByRole("button", { name: "debug" }).click(),
  tasks: (page) => page.getByText("Shard 0", { exact: true }).waitFor(),
  memory: (page) => page.getByRole("heading", { name: "Process" }).waitFor(),
  profiles: drawHeap,
};

async function openFirst(page) {
  await page.locator("tbody tr").first().click();
  await page.getByText("As in /config_dump").click();
}

async function traceOne(page, it) {
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("Active").waitFor();
  await it.asks("/", { headers: { host: "shop.example.com" } });
  await page.getByText("Trace finished").waitFor();
  for (const summary of await page.locator("main summary").all()) await summary.click();
}

async function drawHeap(page) {
  await page.getByRole("button", { name: "Profile heap" }).click();
  await page.getByRole("heading", { name: "Functions" }).waitFor();
  await page.getByLabel("Highlight", { exact: true }).fill("main");
}

let heap;

/** The first heap profile serves for all of them: in a debug build, each takes a while. */
async function heapOnce(route) {
  heap ??= await (await route.fetch({ timeout: PATIENCE })).body();
  await route.fulfill({ body: heap, contentType: "application/octet-stream" });
}

/** What axe finds, as one line each. */
async function findings(page) {
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`),
  );
}

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 800]) {
    test(`nothing is wrong in ${colorScheme} at ${width} pixels`, async (t) => {
      const it = await gateway(t, { configuration: world, listeners: LISTENERS });
      await it.asks("/dead", { headers: { host: "broken.example.com" } });
      const options = {
        route: ["**/debug/pprof/heap", heapOnce],
        colorScheme,
        viewport: { width, height: 800 },
        reducedMotion: "reduce",
      };
      const page = await visit(t, it, options);
      await page.evaluate(axe);
      for (const [view, prepare] of Object.entries(VIEWS)) {
        await page.evaluate((hash) => (location.hash = hash), view);
        await until(
          `${view} is shown`,
          async () =>
            (await page.locator("nav [aria-current]").getAttribute("href")) === `#${view}`,
        );
        await prepare(page, it);
        assert.deepEqual(await findings(page), [], view);
        const overflows = await page.evaluate(
          () => document.documentElement.scrollWidth > innerWidth,
        );
        assert.ok(!overflows, `${view} is wider than the window`);
      }
    });
  }
}

test("an error is announced, and nothing is wrong with it", async (t) => {
  const it = await gateway(t, { configuration: world, listeners: LISTENERS });
  const page = await visit(t, it, { expected: ["Failed to load resource"] });
  await page.locator("#state").getByText("Ready").waitFor();
  await page.evaluate(axe);
  it.stop();
  await page.getByRole("alert").waitFor();
  assert.deepEqual(await findings(page), []);
});
