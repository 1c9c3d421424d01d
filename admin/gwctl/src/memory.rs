//! `gwctl memory`: memory usage.

use std::io::Write;

use admin_types::memory::{Allocated, Memory};
use anyhow::Result;

use crate::args::ListArgs;
use crate::pods;
use crate::source::{Source, json};
use crate::table::Table;

/// Prints the memory usage as seen by the kernel, the allocator and the cgroup.
///
/// # Errors
/// The gateway is unreachable, or its response invalid.
pub(crate) fn run(args: &ListArgs, source: &Source, out: &mut dyn Write) -> Result<()> {
    let clients = source.clients(args.resource.as_ref(), args.all_pods)?;
    let answers = clients.into_iter().map(|it| {
        let answer: Memory = json(&it.client, "/memory")?;
        Ok((it.pod, answer))
    });
    let answers = answers.collect::<Result<Vec<_>>>()?;
    pods::write(&answers, table, args.output, out)
}

fn table(memory: &Memory) -> Table<3> {
    let mut table = Table::new(["SOURCE", "METRIC", "VALUE"]);
    let mut row = |source: &str, metric: &str, value: Option<String>| {
        if let Some(value) = value {
            table.row([source.to_owned(), metric.to_owned(), value]);
        }
    };
    let (process, allocator) = (&memory.process, &memory.allocator);
    row("process", "resident", Some(bytes(process.rss)));
    row("process", "proportional (PSS)", process.pss.map(bytes));
    row("process", "swapped", Some(bytes(process.swap)));
    row("process", "threads", Some(process.threads.to_string()));
    let descriptors = match process.max_fds {
        Some(max) => format!("{} of {max}", process.fds),
        None => process.fds.to_string(),
    };
    row("process", "file descriptors", Some(descriptors));
    row("allocator", "committed", Some(bytes(allocator.committed)));
    row(
        "allocator",
        "peak committed",
        Some(bytes(allocator.peak_committed)),
    );
    row(
        "allocator",
        "address space",
        Some(bytes(allocator.reserved)),
    );
    if let Some(allocations) = &memory.allocations {
        let amount = |it: &Allocated| {
            let live = format!("{} in {} allocations", bytes(it.live_bytes), it.live_count);
            format!("{live}; {} in {} in total", bytes(it.bytes), it.count)
        };
        row("allocations", "process", Some(amount(&allocations.total)));
        for (id, shard) in allocations.shards.iter().enumerate() {
            row("allocations", &format!("shard {id}"), Some(amount(shard)));
        }
    }
    if let Some(group) = &memory.cgroup {
        row("cgroup", "usage", Some(bytes(group.usage)));
        row("cgroup", "working set", Some(bytes(group.working_set)));
        let limit = group.limit.map_or_else(|| "none".to_owned(), bytes);
        row("cgroup", "limit", Some(limit));
    }
    let heap = &memory.heap_profile;
    let sampling = if heap.armed { "on" } else { "off" };
    row("heap profile", "sampling", Some(sampling.to_owned()));
    row(
        "heap profile",
        "live samples",
        Some(heap.live_samples.to_string()),
    );
    table
}

/// A number of bytes in the largest fitting unit, such as `12.3 MiB`.
fn bytes(count: u64) -> String {
    let mut unit = "B";
    let (mut whole, mut tenths) = (count, 0);
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if whole < 1024 {
            break;
        }
        tenths = whole % 1024 * 10 / 1024;
        whole /= 1024;
        unit = larger;
    }
    if unit == "B" {
        format!("{count} B")
    } else {
        format!("{whole}.{tenths} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_scaled_to_a_unit() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (64 << 20, "64.0 MiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
