// Memory usage.

import { json } from "./api.js";
import { bar, el, facts, failure, section, table, tag } from "./dom.js";
import { poll } from "./poll.js";
import { bytes, count } from "./text.js";

export const title = "Memory";

/** Refresh interval: 10 s. The kernel walks the page tables for each response. */
const SECONDS = 10;

export function create() {
  const node = el("div", { class: "stack" }, el("p", { class: "muted" }, "Loading…"));
  const polling = poll(SECONDS, async () => {
    try {
      node.replaceChildren(...report(await json("memory")));
    } catch (error) {
      node.replaceChildren(failure(error));
    }
  });
  return { node, stop: polling.stop };
}

function report(memory) {
  const { process, allocator, allocations, cgroup, heapProfile } = memory;
  return [
    el(
      "div",
      { class: "columns" },
      section("Process", facts(ofProcess(process))),
      section(
        "Control group",
        cgroup ? ofGroup(cgroup) : el("p", { class: "muted" }, "No memory cgroup."),
      ),
      section("Allocator", facts(ofAllocator(allocator))),
      section("Heap profile", facts(ofProfile(heapProfile))),
    ),
    allocations && section("Allocations", ofShards(allocations)),
  ].filter(Boolean);
}

function ofProcess(process) {
  const limit = process.maxFds ? ` of ${count(process.maxFds)}` : "";
  return [
    ["resident", bytes(process.rss)],
    ["proportional (PSS)", process.pss !== null && bytes(process.pss)],
    ["swapped", bytes(process.swap)],
    ["address space", bytes(process.virtualSize)],
    ["threads", count(process.threads)],
    ["file descriptors", `${count(process.fds)}${limit}`],
  ];
}

function ofGroup({ usage, limit, workingSet }) {
  const share = limit ? workingSet / limit : undefined;
  const tone = share > 0.9 ? "bad" : share > 0.75 ? "warn" : "good";
  return [
    share !== undefined && bar(share, tone),
    facts([
      ["working set", bytes(workingSet)],
      ["usage", bytes(usage)],
      ["limit", limit ? bytes(limit) : "none"],
      ["share of the limit", share !== undefined && tag(`${Math.round(share * 100)} %`, tone)],
    ]),
  ];
}

function ofAllocator(allocator) {
  return [
    ["name", allocator.name],
    ["committed", bytes(allocator.committed)],
    ["peak committed", bytes(allocator.peakCommitted)],
    ["reserved", bytes(allocator.reserved)],
    ["resident", bytes(allocator.rss)],
    ["peak resident", bytes(allocator.peakRss)],
    ["major page faults", count(allocator.pageFaults)],
  ];
}

function ofProfile({ armed, sampled, liveSamples }) {
  return [
    ["sampling", armed ? tag("on", "good") : tag("off")],
    ["samples", count(sampled)],
    ["live samples", count(liveSamples)],
    ["profile", armed && el("a", { href: "#profiles" }, "show the heap as a flame graph")],
  ];
}

function ofShards({ total, shards }) {
  const row = (name, it) => [
    name,
    bytes(it.liveBytes),
    count(it.liveCount),
    bytes(it.bytes),
    count(it.count),
  ];
  const columns = ["Thread", "Live", "Live allocations", "Total allocated", "Allocations"];
  const rows = [row("All", total), ...shards.map((shard, id) => row(`Shard ${id}`, shard))];
  return table(
    "Allocations",
    columns.map((title, index) => ({ title, number: index > 0 })),
    rows,
  );
}
