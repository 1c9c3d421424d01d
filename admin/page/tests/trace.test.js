// Requests are told as they happen.

import assert from "node:assert/strict";
import { test } from "node:test";
import { until, visit } from "./support/browser.js";
import { gateway } from "./support/gateway.js";
import { HOSTILE, LISTENERS, world } from "./support/world.js";

const host = "shop.example.com";

async function arm(page, fields = {}) {
  for (const [label, value] of Object.entries(fields))
    await page.getByLabel(label, { exact: true }).fill(value);
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("Active: waiting for a request or connection.").waitFor();
}

test("a request is drawn while it is still under way", async (t) => {
  const waiting = [];
  const origin = (request, response) => waiting.push(response);
  const it = await gateway(t, { configuration: world, listeners: LISTENERS, origin });
  const page = await visit(t, it, { hash: "#trace" });
  await page.getByText("No request traced yet.").waitFor();
  await arm(page, { Method: "POST", Host: host, "Path prefix": "/cart" });

  // Another one comes first, which is not wanted.
  const other = it.asks("/", { headers: { host } });
  await until("the other request is at the origin", () => waiting.length === 1);
  waiting.shift().end();
  assert.equal((await other).status, 200);
  const answered = it.asks("/cart/1", { method: "POST", headers: { host } });
  await until("the request is at the origin", () => waiting.length === 1);

  const story = page.getByRole("article", { name: "The request" });
  await story.getByText(/^Attempt 1/).waitFor();
  assert.equal(await story.getByText("Finished with status").count(), 0, "the origin has not answered");
  const rule = (outcome, why) =>
    story.getByRole("row").filter({ hasText: outcome }).filter({ hasText: why });
  await rule("selected", "HTTPRoute/shop/cart/0").waitFor();
  await rule("no match", "the path differs").first().waitFor();
  await rule("shadowed", "HTTPRoute/shop/cart/1").waitFor();
  await story.getByRole("row").filter({ hasText: "selected" }).getByText(/\d/).first().waitFor();

  waiting.shift().writeHead(201, { "x-from": "origin" }).end("made");
  assert.equal((await answered).status, 201);
  await story.getByRole("heading", { name: "Finished with status 201", exact: true }).waitFor();
  await story.getByRole("heading", { name: `201 POST ${host}/cart/1` }).waitFor();
  await page.getByText("Trace finished: 1 request.").waitFor();
});

test("several requests stand in a list, the failed ones as such", async (t) => {
  const it = await gateway(t, { configuration: world, listeners: LISTENERS });
  const page = await visit(t, it, { hash: "#trace" });
  await arm(page, { Requests: "3" });
  assert.equal((await it.asks("/a", { headers: { host } })).status, 200);
  const failed = await it.asks("/dead", { headers: { host: "broken.example.com" } });
  assert.ok([502, 503].includes(failed.status));
  assert.equal((await it.asks("/", { headers: { host: "unknown.example.org" } })).status, 404);
  await page.getByText("Trace finished: 3 requests.").waitFor();
  const list = page.getByRole("list", { name: "Traced requests" });
  const texts = await list.getByRole("button").allInnerTexts();
  const statuses = texts.map((text) => text.split(/\s+/)[0]);
  assert.deepEqual(statuses.toSorted(), ["200", "404", String(failed.status)]);

  await list.getByRole("button", { name: /dead/ }).click();
  const story = page.getByRole("article");
  await story
    .getByText(/Retried|Not retried/)
    .first()
    .waitFor();
  await list.getByRole("button", { name: /unknown/ }).click();
  await story.getByText("No rule matches").waitFor();
});

test("a connection that is carried as it is is no request", async (t) => {
  const it = await gateway(t, { configuration: world, listeners: LISTENERS });
  const page = await visit(t, it, { hash: "#trace" });
  await arm(page, { Requests: "2" });
  assert.equal((await it.asks("/a", { port: it.ports[2] })).status, 200);
  await page.getByText("Receiving: 1 connection.").waitFor();
  const story = page.getByRole("article", { name: "The connection" });
  await story.getByRole("heading", { name: "closed TCP 127.0.0.1", exact: true }).waitFor();
  await story.getByRole("heading", { name: "TCP connection started", exact: true }).waitFor();
  await story.getByRole("heading", { name: "Listener Gateway/shop/edge/raw" }).waitFor();
  const text = await story.innerText();
  assert.match(text, /configuration\s+number 1\s/);
  assert.match(text, /backend\s+Backend\/shop\/legacy\s/);
  const list = page.getByRole("list", { name: "Traced requests and connections" });
  await list.getByRole("button", { name: /^closed ?TCP 127\.0\.0\.1/ }).waitFor();

  assert.equal((await it.asks("/a", { headers: { host } })).status, 200);
  await page.getByText("Trace finished: 1 request and 1 connection.").waitFor();
});

test("headers that look like HTML are text", async (t) => {
  const it = await gateway(t, { configuration: world, listeners: LISTENERS });
  const page = await visit(t, it, { hash: "#trace" });
  await arm(page);
  await it.asks("/?q=<b>bold</b>", {
    headers: { host, "x-harm": HOSTILE, authorization: "Bearer secret-token" },
  });
  await page.getByText("Trace finished: 1 request.").waitFor();
  await page
    .getByText(/^\d+ headers$/)
    .first()
    .click();
  await page.getByRole("cell", { name: HOSTILE }).waitFor();
  assert.equal(await page.locator("main img, main script, main b").count(), 0);
  assert.ok(!(await page.content()).includes("secret-token"));
});

test("a trace that cannot be drawn is ended", async (t) => {
  const it = await gateway(t, { configuration: world, listeners: LISTENERS });
  const page = await visit(t, it, { hash: "#trace" });
  await arm(page, { Requests: "10000" });
  await page.evaluate(() => {
    JSON.parse = () => {
      throw new Error("no such text");
    };
  });
  const ended = page.waitForEvent("requestfailed", (it) => it.url().includes("/debug/trace"));
  assert.equal((await it.asks("/a", { headers: { host } })).status, 200);
  await page.getByRole("alert").getByText("no such text").waitFor();
  await ended;
});

test("a trace is stopped, and one that cannot be says why", async (t) => {
  const it = await gateway(t, { configuration: world, listeners: LISTENERS });
  const page = await visit(t, it, { hash: "#trace", expected: ["400"] });
  await arm(page);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped: 0 requests.").waitFor();
  await page.getByLabel("Timeout").fill("10ms");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("No matching request arrived").waitFor();

  await page.getByLabel("Host").fill("a b");
  await page.getByLabel("Timeout").fill("");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("alert").getByText("invalid match `a b`").waitFor();
});
