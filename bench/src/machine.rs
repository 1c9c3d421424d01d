//! The machine of the measurements.

use std::fs;

use anyhow::Result;

use crate::process;
use crate::record::Machine;

/// This machine and its load generators.
pub(crate) fn describe() -> Machine {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .map(str::to_owned);
        line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
    };
    let kilobytes = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let tools = [
        ("wrk", first_line(process::output("wrk", &["--version"]))),
        (
            "h2load",
            first_line(process::output("h2load", &["--version"])),
        ),
        ("perf", first_line(process::output("perf", &["--version"]))),
    ];
    Machine {
        cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
        cores: cores(),
        memory: kilobytes.unwrap_or(0) * 1024,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control")
            .trim()
            .to_owned(),
        tools: tools
            .into_iter()
            .map(|(name, version)| (name.to_owned(), version))
            .collect(),
    }
}

/// Cores this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn first_line(output: Result<String>) -> String {
    match output {
        Ok(text) => {
            let line = text.lines().next().unwrap_or_default();
            line.split(" [")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        }
        Err(_) => "not installed".to_owned(),
    }
}
