// Everything can be done by the keyboard alone, and one always sees where one is.

import assert from "node:assert/strict";
import { test } from "node:test";
import { until, visit } from "./support/browser.js";
import { gateway } from "./support/gateway.js";
import { LISTENERS, world } from "./support/world.js";

const everything = { configuration: world, listeners: LISTENERS };

/** What has the focus: its words, and whether that can be seen. */
function focus(page) {
  return page.evaluate(() => {
    const at = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(at);
    const words = at.getAttribute("aria-label") ?? at.labels?.[0]?.innerText ?? at.innerText;
    const box = at.getBoundingClientRect();
    // A list may be larger than the window: of that, a part has to be seen (WCAG 2.2, 2.4.11).
    const inView =
      box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth;
    return {
      words: words.trim(),
      outlined: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2,
      inView,
    };
  });
}

/** Presses Tab until what has these words has the focus; all on the way must be seen. */
async function tabTo(page, words, key = "Tab") {
  const passed = [];
  for (let pressed = 0; pressed < 60; pressed++) {
    await page.keyboard.press(key);
    const at = await focus(page);
    passed.push(at.words);
    assert.ok(at.outlined, `the focus cannot be seen: ${at.words}`);
    // The window follows the focus with its next frame.
    await until(`${at.words} is in view`, async () => (await focus(page)).inView);
    if (at.words === words) return passed;
  }
  assert.fail(`no Tab leads to ${words}: ${passed.join(", ")}`);
}

test("the skip link leads past the navigation", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#routes" });
  await page.getByRole("link", { name: "shop/cart/0" }).first().waitFor();
  assert.deepEqual(await tabTo(page, "Skip to content"), ["Skip to content"]);
  await page.keyboard.press("Enter");
  assert.deepEqual(await tabTo(page, "Search rules"), ["Search rules"]);
});

test("the focus goes through the page in the order of reading", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#listeners" });
  await page.getByRole("link", { name: "secure" }).waitFor();
  const passed = await tabTo(page, "Search listeners");
  assert.deepEqual(passed, [
    "Skip to content",
    "Gateway",
    "Pause updates",
    ...["Overview", "Routes", "Listeners", "Backends", "Policies", "Certificates"],
    ...["Trace", "Log level", "Tasks", "Memory", "Profiles"],
    "Search listeners",
  ]);
});

test("an entry is found, opened, read and closed", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it);
  await tabTo(page, "Routes");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Routes", level: 1 }).waitFor();
  await until("rules are listed", () => page.locator("tbody tr").count());
  await page.keyboard.press("/");
  assert.equal((await focus(page)).words, "Search rules");
  await page.keyboard.type("HTTPRoute/shop/cart/");
  await page.getByText(/^4 of \d+ rules$/).waitFor();
  await tabTo(page, "shop/cart/0");
  await page.keyboard.press("End");
  assert.equal((await focus(page)).words, "shop/cart/1");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Home");
  assert.equal((await focus(page)).words, "shop/cart/0");
  await page.keyboard.press("Enter");
  await until("the details have the focus", async () =>
    (await focus(page)).words.startsWith("HTTPRoute shop/cart, rule 0"),
  );
  await tabTo(page, "Close");
  await page.keyboard.press("Escape");
  await until(
    "the row has the focus again",
    async () => (await focus(page)).words === "shop/cart/0",
  );
});

test("a request is traced", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it);
  await tabTo(page, "Trace");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Trace", level: 1 }).waitFor();
  await tabTo(page, "Host");
  await page.keyboard.type("shop.example.com");
  await tabTo(page, "Start");
  await page.keyboard.press("Enter");
  await page.getByText("Active: waiting for a request or connection.").waitFor();
  assert.equal((await focus(page)).words, "Stop");
  await it.asks("/", { headers: { host: "shop.example.com" } });
  await page.getByText("Trace finished: 1 request.").waitFor();
  await until("the focus is back", async () => (await focus(page)).words === "Start");
  await tabTo(page, "HTTPRoute/shop/cart/1");
});

test("a log level is set", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#logging" });
  await tabTo(page, "warn");
  await page.keyboard.press("Space");
  await page.getByText("The filter is now warn.").waitFor();
  assert.equal((await it.admin("/logging")).body.trim(), "current log level is warn");
});
