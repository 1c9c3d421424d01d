// The real gateway with a configuration of its own, and origins behind it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs/promises";
import http from "node:http";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { atEnd, until } from "./browser.js";

/** For how often other ports are tried where a process took one of them meanwhile. */
const TRIES = 5;

/**
 * A gateway that is ready. `configuration` writes its file, given the ports of its listeners, of an
 * origin that answers by `origin`, and of a dead one that drops each connection.
 */
export async function gateway(t, { configuration, listeners = 1, origin: respond = hello }) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "page-"));
  const file = path.join(folder, "gateway.yaml");
  const origin = await serve(http.createServer(respond));
  const broken = await serve(net.createServer((socket) => socket.destroy()));
  const dead = broken.port;
  const write = (text) =>
    fs.writeFile(`${file}.new`, text).then(() => fs.rename(`${file}.new`, file));
  let child;
  atEnd(t, async () => {
    await ended(child);
    origin.close();
    broken.close();
    await fs.rm(folder, { recursive: true });
  });
  let [admin, ports] = [];
  for (let tries = 1; ; tries++) {
    [admin, ...ports] = await freePorts(1 + listeners);
    await write(configuration({ ports, origin: origin.port, dead }));
    child = spawn(process.env.GATEWAY, flags(file, admin), { stdio: ["ignore", "ignore", "pipe"] });
    const taken = await lacksPort(child, admin, ports);
    if (!taken) break;
    assert.ok(tries < TRIES, `no ports: ${taken}`);
    await ended(child);
  }
  return {
    origin: `http://127.0.0.1:${admin}`,
    ports,
    originPort: origin.port,
    dead,
    rewrite: (change) => write(configuration({ ports, origin: origin.port, dead, ...change })),
    admin: (target, options) => ask(admin, target, options),
    asks: (target, options) => ask(options?.port ?? ports[0], target, options),
    stop: () => child.kill("SIGKILL"),
  };
}

/** Waits until the gateway is ready. Where another process has one of its ports, it says so. */
async function lacksPort(child, admin, ports) {
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (log += text));
  const closed = once(child, "close");
  // Who else has the port may never answer.
  const gone = once(child, "exit").then(() => undefined);
  const isOwn = ({ address }) => ports.some((port) => address.endsWith(`:${port}`));
  const { taken } = await until("the gateway is ready", async () => {
    if (child.exitCode !== null) {
      await closed;
      assert.ok(log.includes("the port is in use by another process"), `the gateway ended:\n${log}`);
      return { taken: log };
    }
    const asked = ask(admin, "/config_dump?type=runtime").catch(() => undefined);
    const answer = await Promise.race([asked, gone]);
    if (answer?.status !== 200) return undefined;
    const { pending, bindsDown = [] } = JSON.parse(answer.body).runtime;
    const down = bindsDown.find(isOwn);
    if (down) return { taken: down.reason };
    return pending.length === 0 && {};
  });
  return taken;
}

/** Kills a process, and waits until it is gone. */
async function ended(child) {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const over = once(child, "exit");
  child.kill("SIGKILL");
  await over;
}

function flags(file, admin) {
  return [
    "run",
    "--shards=2",
    `--config=${file}`,
    `--admin-address=127.0.0.1:${admin}`,
    "--metrics-address=off",
    "--readiness-address=off",
    "--access-log=off",
  ];
}

/**
 * Ports that were free a moment ago, each given out once by this process. They lie below those that
 * the kernel gives to clients, one of which would keep the gateway from binding.
 */
async function freePorts(count) {
  const ports = [];
  while (ports.length < count) {
    const port = FIRST_PORT + (next++ % PORTS);
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

const FIRST_PORT = 16_000;
const PORTS = 16_000;
/** Test processes that run side by side start far from one another. */
let next = process.pid * 151;

async function isFree(port) {
  const server = net.createServer().listen(port);
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  await once(server.close(), "close");
  return true;
}

function hello(request, response) {
  response.end("hello");
}

/** On every address of the machine, so that one origin is several endpoints. */
async function serve(server) {
  server.listen(0, "0.0.0.0");
  await once(server, "listening");
  const close = () => {
    server.close();
    server.closeAllConnections?.();
  };
  return { port: server.address().port, close };
}

/** The answer to a request on a connection of its own. */
export function ask(port, target, { method = "GET", headers = {} } = {}) {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path: target, method, headers, agent: false };
    const request = http.request(options, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (text) => (body += text));
      response.on("end", () =>
        resolve({ status: response.statusCode, headers: response.headers, body }),
      );
    });
    request.on("error", reject);
    request.end();
  });
}
