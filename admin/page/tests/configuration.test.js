// What is loaded is what is shown.

import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { atEnd, until, visit } from "./support/browser.js";
import { gateway } from "./support/gateway.js";
import { HOSTILE, LISTENERS, route, world } from "./support/world.js";

const everything = { configuration: world, listeners: LISTENERS };

/** The texts of the rows of the view's list, each cell trimmed. */
async function rows(page) {
  const all = await page.locator("tbody tr").all();
  return Promise.all(all.map((row) => row.locator("th, td").allInnerTexts()));
}

async function dumped(it, list) {
  return JSON.parse((await it.admin(`/config_dump?type=${list}`)).body)[list];
}

test("the overview says that it is ready, and counts what is loaded", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it);
  await page.getByRole("status").getByText("Ready", { exact: true }).waitFor();
  await page.getByText("The configuration is loaded").waitFor();
  for (const [list, noun] of [
    ["routes", "rules"],
    ["listeners", "listeners"],
    ["policies", "policies"],
  ]) {
    const count = (await dumped(it, list)).length;
    await page.getByRole("link", { name: new RegExp(`^${count} ?${noun}`) }).waitFor();
  }
  await page.getByText("1 problem", { exact: true }).waitFor();
  assert.equal(await page.getByRole("rowheader", { name: /^Shard \d$/ }).count(), 2);
});

test("each rule is listed, found by a search, and explained", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#routes" });
  const all = await dumped(it, "routes");
  await page.getByText(`${all.length} rules`, { exact: true }).waitFor();
  assert.equal((await rows(page)).length, all.length);

  await page.getByLabel("Search rules").fill("checkout web");
  await page.getByText(`1 of ${all.length} rules`).waitFor();
  await page.getByRole("link", { name: "shop/cart/0" }).click();
  const details = page.getByRole("complementary", { name: "Details" });
  await details.getByRole("heading", { name: "HTTPRoute shop/cart, rule 0 “checkout”" }).waitFor();
  const text = await details.innerText();
  for (const said of [
    "/checkout",
    "x-tester = yes",
    "x-seen-by: edge",
    "90 %",
    "10 %",
    "2s",
    "503",
  ]) {
    assert.ok(text.includes(said), `${said}: ${text}`);
  }

  // Both policies: that of the Gateway, and that of a backend of the rule.
  for (const policy of ["house-rules", "sturdy"]) {
    await details.getByRole("link", { name: policy }).first().waitFor();
  }
  await details.getByRole("link", { name: "Service/shop/carts:80" }).click();
  await page.getByRole("heading", { name: "Backends", level: 1 }).waitFor();
  await details.getByRole("heading", { name: "Service shop/carts" }).waitFor();
  await page.goBack();
  await details.getByRole("heading", { name: /rule 0/ }).waitFor();
  assert.equal(await page.getByLabel("Search rules").inputValue(), "checkout web");
});

/** Policies of the Gateway and of a route, of which the first overrides. */
const PRECEDENCE = `---
apiVersion: gateway-system.io/v1alpha1
kind: TrafficPolicy
metadata: {name: platform, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge, sectionName: web}]
  precedence: Overrides
  authorization: {allow: [{when: "request.method == 'GET'"}]}
  limits: {requestBodyBytes: 1000}
---
apiVersion: gateway-system.io/v1alpha1
kind: TrafficPolicy
metadata: {name: tenant, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: moved}]
  accessLog: {disabled: true}
  authorization: {allow: [{when: "request.path == '/'"}]}
  limits: {requestBodyBytes: 500}
`;

test("each setting of a rule is shown with the policy that it comes from", async (t) => {
  const configuration = (ports) => world({ ...ports, extra: PRECEDENCE });
  const it = await gateway(t, { ...everything, configuration });
  const page = await visit(t, it, { hash: "#routes" });
  await page.getByLabel("Search rules").fill("moved web");
  await page.getByRole("link", { name: "shop/moved/0" }).click();
  const settings = page.getByRole("region", { name: "Settings of the rule" });
  await settings.waitFor();
  const shown = await settings.locator("tbody tr").all();
  const texts = await Promise.all(shown.map((row) => row.locator("th, td").allInnerTexts()));
  const name = (policy) => policy.match(/shop\/([a-z-]+)/)[1];
  assert.deepEqual(
    texts.map(([field, value, effect, policy]) => [field, value, effect, name(policy)]),
    [
      ["access log", "", "default", "tenant"],
      ["authorization", "", "overrides", "platform"],
      ["authorization", "", "in addition", "tenant"],
      ["limits.head bytes", "32768", "default", "house-rules"],
      ["limits.request body bytes", "1000", "bound", "platform"],
      ["limits.request body bytes", "500", "within bounds", "tenant"],
    ],
  );
  await settings.getByRole("link", { name: /platform/ }).first().click();
  await page.getByRole("heading", { name: "Policies", level: 1 }).waitFor();
});

test("a port that another process has is shown, until it is given back", async (t) => {
  const other = net.createServer().listen(0);
  await once(other, "listening");
  atEnd(t, () => other.listening && other.close());
  const { port } = other.address();
  const configuration = ({ ports: [web, tls], ...rest }) =>
    world({ ports: [web, tls, port], ...rest });
  const it = await gateway(t, { configuration, listeners: 2 });
  const page = await visit(t, it);
  const state = page.locator("#state");
  await state.getByText("Ready, 1 socket down").waitFor();
  await page.getByText("1 socket cannot be bound").waitFor();
  const reason = "the port is in use by another process";
  await page
    .getByRole("listitem")
    .filter({ hasText: `:${port}` })
    .getByText(reason)
    .waitFor();

  await page.getByRole("link", { name: "Listeners", exact: true }).click();
  const row = page.getByRole("row").filter({ hasText: `:${port}` });
  await row.getByText("Down", { exact: true }).waitFor();
  assert.equal(await page.getByRole("cell", { name: "Up", exact: true }).count(), 2);
  await row.getByRole("link").click();
  await page.getByRole("complementary", { name: "Details" }).getByText(reason).waitFor();
  other.close();
  await row.getByText("Up", { exact: true }).waitFor();
  await state.getByText("Ready", { exact: true }).waitFor();
});

test("listeners, policies and certificates are shown with what they name", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#listeners" });
  await page.getByRole("link", { name: "secure", exact: true }).click();
  const details = page.getByRole("complementary", { name: "Details" });
  await details.getByRole("link", { name: "CN=shop.example.com" }).click();
  await page.getByRole("heading", { name: "Certificates", level: 1 }).waitFor();
  await details.getByText(/Valid for \d+ d/).waitFor();

  await page.getByRole("link", { name: "Policies", exact: true }).click();
  const policies = await dumped(it, "policies");
  await page.getByText(`${policies.length} policies`, { exact: true }).waitFor();
  await page.getByRole("link", { name: /house-rules/ }).click();
  const text = await details.innerText();
  assert.match(text, /head bytes\s+32768/);
  await details.getByRole("link", { name: "gateway shop/edge" }).click();
  await page.getByText("3 listeners", { exact: true }).waitFor();
});

test("a rule with an invalid backend is found by a box", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#routes" });
  await page.getByLabel("Only with an invalid backend").check();
  await page.getByText(/^1 of \d+ rules$/).waitFor();
  await page.getByText(/^500: BackendNotFound Service\/\S+\/nowhere:80$/).waitFor();
});

test("backends show what requests made of them", async (t) => {
  const it = await gateway(t, everything);
  const send = (host, path) => it.asks(path, { headers: { host } });
  for (let sent = 0; sent < 7; sent++) {
    assert.equal((await send("shop.example.com", "/")).status, 200);
    assert.ok((await send("broken.example.com", "/dead")).status >= 502);
  }
  const page = await visit(t, it, { hash: "#backends" });
  const row = (name) => page.getByRole("row").filter({ hasText: name });
  await row("shop/legacy").getByText("Healthy").waitFor();
  const [, endpoint, , health, requests, , latency] = await row("shop/legacy")
    .locator("th, td")
    .allInnerTexts();
  assert.deepEqual([endpoint, health, requests], [`127.0.0.1:${it.originPort}`, "1.00", "7"]);
  assert.match(latency, /^\d+\.\d\d ms$/);
  await row("shop/dead")
    .getByText(/Failing|Ejected/)
    .waitFor();
  await page.getByLabel("Only unhealthy").check();
  assert.equal((await rows(page)).length, 1);

  // It is shown as it changes, without loading the page again.
  await page.getByLabel("Only unhealthy").uncheck();
  await send("shop.example.com", "/");
  await row("shop/legacy").getByRole("cell", { name: "8", exact: true }).waitFor();
});

test("a change of the configuration appears by itself", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#routes" });
  await page.getByRole("link", { name: "shop/cart/0" }).first().focus();
  await it.rewrite({ extra: route("newcomer") });
  await page.getByRole("link", { name: "shop/newcomer/0" }).waitFor();
  // What had the focus has it still.
  assert.equal(await page.evaluate(() => document.activeElement.innerText.trim()), "shop/cart/0");
  await it.rewrite({});
  await page.getByRole("link", { name: "shop/newcomer/0" }).waitFor({ state: "detached" });
});

test("endpoints of another configuration do not mix with the one that is shown", async (t) => {
  const it = await gateway(t, everything);
  let [isNewer, told] = [true, 0];
  const newer = async (route) => {
    const answer = await route.fetch();
    const dump = await answer.json();
    if (isNewer) {
      dump.version.configuration += 1;
      dump.backends = [];
    }
    await route.fulfill({ response: answer, json: dump });
    told += 1;
  };
  const page = await visit(t, it, {
    hash: "#backends",
    route: ["**/config_dump?type=backends", newer],
  });
  const row = page.getByRole("row").filter({ hasText: "shop/legacy" });
  const requests = row.getByRole("cell", { name: "1", exact: true });
  await until("they are told twice", () => told >= 2);
  await row.waitFor();
  assert.equal((await it.asks("/", { headers: { host: "shop.example.com" } })).status, 200);
  isNewer = false;
  await requests.waitFor();
});

test("what looks like HTML is text", async (t) => {
  const it = await gateway(t, everything);
  const page = await visit(t, it, { hash: "#routes?q=hostile" });
  await page.getByText(HOSTILE).first().waitFor();
  await page.getByRole("link", { name: "shop/hostile/0" }).click();
  await page.getByRole("complementary").getByText(HOSTILE).first().waitFor();
  assert.equal(await page.locator("main img, main script").count(), 0);
});

test("a name that no API server would take is text too", async (t) => {
  const it = await gateway(t, everything);
  // Each name of the real dump, made hostile on its way.
  const rewrite = async (route) => {
    const answer = await route.fetch();
    const body = (await answer.text()).replaceAll(
      /"([^"]*)(cart|legacy|house-rules|web)([^"]*)"/g,
      (_, before, name, after) => JSON.stringify(`${before}${name}${HOSTILE}${after}`),
    );
    await route.fulfill({ response: answer, body });
  };
  const page = await visit(t, it, { route: ["**/config_dump*", rewrite] });
  for (const view of ["routes", "listeners", "backends", "policies", "certificates", "overview"]) {
    await page.goto(`${it.origin}/#${view}`);
    if (view !== "overview" && view !== "certificates") {
      await page.getByText("<img src=x").first().waitFor();
      await page.locator("tbody tr").filter({ hasText: "<img" }).first().click();
      await page.getByRole("complementary").getByText("As in /config_dump").click();
    }
    assert.equal(await page.locator("main img, main script").count(), 0, view);
  }
});

test("5 000 rules are paged, searched and sorted", async (t) => {
  const many = ({ ports: [port], origin }) => {
    const rule = (number) =>
      `{matches: [{path: {value: /p${number}}}], backendRefs: [{group: gateway-system.io, kind: Backend, name: only}]}`;
    const of = (object) => Array.from({ length: 10 }, (_, index) => rule(object * 10 + index));
    const head = "apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute";
    const routes = Array.from(
      { length: 500 },
      (_, object) =>
        `{${head}, metadata: {name: route-${object}}, spec: {parentRefs: [{name: edge}], rules: [${of(object).join(", ")}]}}`,
    );
    return [
      `{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: edge}, spec: {gatewayClassName: gateway, listeners: [{name: web, port: ${port}, protocol: HTTP}]}}`,
      `{apiVersion: gateway-system.io/v1alpha1, kind: Backend, metadata: {name: only}, spec: {addresses: [{host: 127.0.0.1, port: ${origin}}]}}`,
      ...routes,
    ].join("\n---\n");
  };
  const it = await gateway(t, { configuration: many });
  const page = await visit(t, it, { hash: "#routes" });
  await page.getByText("5,000 rules", { exact: true }).waitFor();
  assert.equal((await rows(page)).length, 100);
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("101–200 of 5,000").waitFor();
  await page.getByRole("button", { name: "Match" }).click();
  await until("the first path stands first", async () => (await rows(page))[0][3].endsWith("/p0"));
  await page.getByLabel("Search rules").fill('/p4711"');
  await page.getByText("1 of 5,000 rules").waitFor();
  await page.getByRole("link", { name: "default/route-471/1" }).click();
  await page.getByRole("complementary").getByText("/p4711", { exact: true }).waitFor();
  await page.getByLabel("Search rules").fill("no such rule");
  await page.getByText("No matching rules.").waitFor();
});

test("an empty gateway says what to do", async (t) => {
  const it = await gateway(t, {
    configuration: ({ ports: [port] }) =>
      `{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: edge}, spec: {gatewayClassName: gateway, listeners: [{name: web, port: ${port}, protocol: HTTP}]}}`,
  });
  const page = await visit(t, it);
  for (const [view, title] of [
    ["routes", "No route is loaded."],
    ["backends", "No backend is loaded."],
    ["policies", "No policy is loaded."],
    ["certificates", "No certificate is loaded."],
  ]) {
    await page.goto(`${it.origin}/#${view}`);
    await page.getByText(title).waitFor();
  }
});
