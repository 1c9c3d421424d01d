// Log level, tasks, memory, profiles, and how the gateway fares.

import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { atEnd, until, visit } from "./support/browser.js";
import { gateway } from "./support/gateway.js";
import { LISTENERS, world } from "./support/world.js";

const everything = { configuration: world, listeners: LISTENERS };

async function filterInForce(it) {
  return (await it.admin("/logging")).body.trim().replace("current log level is ", "");
}

test("the log level is shown and set", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#logging", expected: ["400"] });
  const shown = page.getByLabel("Current filter:");
  await until(
    "the filter is shown",
    async () => (await shown.innerText()) === (await filterInForce(it)),
  );

  await page.getByRole("button", { name: "debug" }).click();
  await page.getByText("The filter is now debug.").waitFor();
  assert.equal(await filterInForce(it), "debug");
  assert.equal(
    await page.getByRole("button", { name: "debug" }).getAttribute("aria-pressed"),
    "true",
  );

  await page.getByLabel("Filter", { exact: true }).fill("warn,proxy::forward=trace");
  await page.getByRole("button", { name: "Set" }).click();
  await until("the filter is set", async () =>
    (await filterInForce(it)).includes("proxy::forward=trace"),
  );
  const before = await filterInForce(it);
  await until("the filter is shown", async () => (await shown.innerText()) === before);

  await page.getByLabel("Filter", { exact: true }).fill("proxy=loud");
  await page.getByRole("button", { name: "Set" }).click();
  await page.getByRole("alert").getByText("usage:").waitFor();
  assert.equal(await filterInForce(it), before);
  assert.equal(await shown.innerText(), before);
});

test("a connection stands in the task tree", async (t) => {
  const it = await gateway(t, everything);
  const client = net.connect(it.ports[0], "127.0.0.1");
  atEnd(t, () => client.destroy());
  await once(client, "connect");
  client.write("GET / HTTP/1.1\r\nhost: shop.example.com\r\n\r\n");
  await once(client, "data");

  const page = await visit(t, it, { hash: "#tasks" });
  for (const thread of ["Shard 0", "Shard 1", "Admin", "Configuration"])
    await page.locator("main").getByText(thread, { exact: true }).waitFor();
  const address = `127.0.0.1:${client.localPort}`;
  await page.getByRole("row").filter({ hasText: address }).getByText("connection").waitFor();
  await page.getByLabel("Search tasks").fill(address);
  await until(
    "it is alone but for what began it",
    async () => (await page.locator("main tbody tr").count()) === 2,
  );
});

test("memory is what the kernel says", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#memory" });
  const { process, allocator } = JSON.parse((await it.admin("/memory")).body);
  const part = (title) => page.getByRole("heading", { name: title }).locator("..").innerText();
  const text = await part("Process");
  assert.match(text, /resident\s+\d+(\.\d)? MiB/);
  assert.match(text, new RegExp(`file descriptors\\s+\\d+ of ${process.maxFds.toLocaleString("en")}`));
  assert.ok((await part("Allocator")).includes(allocator.name));
});

/** Has the page keep a list of the files that the browser keeps for it. */
function recordFiles() {
  globalThis.kept = new Set();
  const { createObjectURL, revokeObjectURL } = URL;
  URL.createObjectURL = (file) => {
    const href = createObjectURL(file);
    globalThis.kept.add(href);
    return href;
  };
  URL.revokeObjectURL = (href) => {
    globalThis.kept.delete(href);
    revokeObjectURL(href);
  };
}

test("a heap profile becomes a flame graph, walked by keys", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#profiles" });
  await page.getByText("No profile recorded yet.").waitFor();
  await page.evaluate(recordFiles);
  await page.getByRole("button", { name: "Profile heap" }).click();
  const graph = page.getByRole("group", { name: /Flame graph/ });
  await graph.getByRole("button", { name: /^all, / }).focus();
  await page.keyboard.press("ArrowDown");
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  const name = await focused();
  assert.ok(!name.startsWith("all,"), name);
  const wide = () =>
    graph
      .getByRole("button", { name, exact: true })
      .first()
      .evaluate((box) => box.style.width);
  await page.keyboard.press("Enter");
  await until("it is zoomed", async () => (await wide()) === "100%");
  assert.equal(await focused(), name);
  await page.keyboard.press("Escape");
  await until("it is zoomed out", async () => (await focused()).startsWith("all,"));

  await page.getByLabel("Highlight", { exact: true }).fill("main");
  await until("some are marked", async () => (await page.locator(".frame.marked").count()) > 0);
  await page.getByLabel("Show", { exact: true }).selectOption({ label: "total allocated bytes" });
  await page.getByRole("heading", { name: "Functions" }).waitFor();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: "Save for pprof" }).click(),
  ]);
  assert.equal(download.suggestedFilename(), "gateway-heap.pb.gz");
  assert.equal(await page.evaluate(() => globalThis.kept.size), 1);
  await page.getByRole("link", { name: "Overview" }).click();
  await until("no file is kept", () => page.evaluate(() => globalThis.kept.size === 0));
});

test("a CPU profile is taken while requests are served, one at a time", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#profiles", expected: ["409"] });
  const stop = busy(it);
  atEnd(t, stop);
  await page.getByLabel("Seconds").fill("5");
  await page.getByRole("button", { name: "Profile CPU" }).click();
  await page.getByText(/^Sampling for 5 seconds/).waitFor();
  await page.getByRole("group", { name: /Flame graph/ }).waitFor();
  const table = page.getByRole("region", { name: "Top functions" });
  assert.ok((await table.getByRole("row").count()) > 2);

  const other = it.admin("/debug/pprof/profile?seconds=300").catch(() => undefined);
  await until("another profile runs", async () => {
    const { admin } = JSON.parse((await it.admin("/debug/tasks")).body);
    return admin.some(({ detail }) => detail?.includes("/debug/pprof/profile"));
  });
  assert.equal((await it.admin("/debug/pprof/profile?seconds=1")).status, 409);
  await page.getByRole("button", { name: "Profile CPU" }).click();
  await page.getByRole("alert").getByText("Wait until the other operation is complete").waitFor();
  it.stop();
  await other;
});

/** Sends requests until it is stopped: several at a time, so that there is something to sample. */
function busy(it) {
  let over = false;
  const send = async () => {
    while (!over) await it.asks("/", { headers: { host: "shop.example.com" } }).catch(() => {});
  };
  const sending = [send(), send(), send(), send()];
  return async () => {
    over = true;
    await Promise.all(sending);
  };
}

test("a view that fails stops neither the others nor the questions", async (t) => {
  const it = await gateway(t, everything);
  const expected = ["of undefined"];
  let spoilt = true;
  const spoil = async (route) => {
    const answer = await route.fetch();
    const dump = await answer.json();
    if (spoilt) delete dump.runtime.shards;
    await route.fulfill({ response: answer, json: dump });
  };
  const page = await visit(t, it, { expected, route: ["**/config_dump?type=runtime", spoil] });
  await page.locator("#state").getByText("Ready", { exact: true }).waitFor();
  assert.equal(await page.getByRole("rowheader", { name: /^Shard/ }).count(), 0);
  spoilt = false;
  await page.getByRole("rowheader", { name: /^Shard/ }).first().waitFor();
});

test("a busy admin server is no silent one, and only what it refused is asked for again", async (t) => {
  const it = await gateway(t, everything);
  let refused = /type=services/;
  const asked = [];
  const refuse = async (route) => {
    const { search } = new URL(route.request().url());
    asked.push(search);
    if (!refused?.test(search)) return route.continue();
    const error = "too many background jobs";
    return route.fulfill({ status: 503, json: { error } });
  };
  const expected = ["503"];
  const page = await visit(t, it, {
    hash: "#backends",
    expected,
    route: ["**/config_dump*", refuse],
  });
  const state = page.locator("#state");
  const alert = page.getByRole("alert").getByText("too many background jobs");
  await alert.waitFor();
  await state.getByText("Ready", { exact: true }).waitFor();
  await page.getByRole("row").filter({ hasText: "shop/carts" }).first().waitFor();
  const services = () => asked.filter((search) => search === "?type=services").length;
  const before = services();
  await until("it is asked again", () => services() > before);
  assert.equal(asked.filter((search) => search === "").length, 1, "the whole is loaded once");

  refused = /type=runtime/;
  await state.getByText("Busy", { exact: true }).waitFor();
  refused = undefined;
  await state.getByText("Ready", { exact: true }).waitFor();
  await alert.waitFor({ state: "detached" });
});

test("draining shows, and so does that nobody answers any more", async (t) => {
  const origin = () => {}; // It never answers, so that the gateway has something to wait for.
  const it = await gateway(t, { ...everything, origin });
  const page = await visit(t, it, { expected: ["Failed to load resource"] });
  const state = page.locator("#state");
  await state.getByText("Ready").waitFor();
  const held = it.asks("/", { headers: { host: "shop.example.com" } }).catch(() => {});
  assert.equal((await it.admin("/quitquitquit", { method: "POST" })).status, 200);
  await state.getByText("Draining").waitFor();
  await page.getByText("requests in flight are completed").waitFor();
  it.stop();
  await held;
  await state.getByText("Unreachable").waitFor();
  await page.getByRole("alert").getByText("Check that the gateway is running").waitFor();
});
