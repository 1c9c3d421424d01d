//! h2load: the load for flat-out HTTP/2.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::latency::{Basis, Collector};
use super::{Aim, Outcome};
use crate::stats::count64;

/// Runs h2load, which inherits the cores of the calling thread.
pub(super) fn run(aim: Aim<'_>, duration: Duration) -> Result<Outcome> {
    let log = aim.folder.join("h2load.log");
    // It appends.
    let _ = std::fs::remove_file(&log);
    let load = &aim.case.load;
    let output = Command::new("h2load")
        .args([
            "-t1",
            "-c",
            &load.connections.to_string(),
            "-m",
            &load.streams.to_string(),
        ])
        .args(["-D", &duration.as_secs().max(1).to_string()])
        .arg(format!("--log-file={}", log.display()))
        .arg(format!("http://{}{}", aim.address, aim.case.path()))
        .output()
        .context("cannot run h2load")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "h2load failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut outcome = read_summary(&text, load.bytes as u64)?;
    outcome.seconds = count64(duration.as_secs().max(1));
    outcome.in_flight = (load.connections * load.streams) as u64;
    outcome.latency = read_log(&std::fs::read_to_string(&log)?).latency();
    Ok(outcome)
}

/// The counts, checked against each other.
fn read_summary(text: &str, size: u64) -> Result<Outcome> {
    let number = |line: &str, before: &str| -> Option<u64> {
        let line = text.lines().find_map(|l| l.strip_prefix(line))?;
        let (head, _) = line.split_once(before)?;
        let digits = head.rsplit([' ', ',', '(']).find(|part| !part.is_empty())?;
        digits.parse().ok()
    };
    let told = "h2load printed no summary that is understood";
    let succeeded = number("requests: ", " succeeded").context(told)?;
    let failed = number("requests: ", " failed").context(told)?;
    let right = number("status codes: ", " 2xx").context(told)?;
    let data = number("traffic: ", ") data").context(told)?;
    ensure!(succeeded > 0, "not one request was answered");
    ensure!(failed == 0, "{failed} requests failed");
    ensure!(
        right >= succeeded,
        "{right} of {succeeded} answers were 2xx"
    );
    ensure!(
        data >= succeeded * size,
        "{data} bytes came instead of {}",
        succeeded * size
    );
    Ok(Outcome {
        requests: succeeded,
        ..Outcome::default()
    })
}

/// A line per request: start in µs, status, duration in µs.
fn read_log(text: &str) -> Collector {
    let mut collector = Collector::new(Basis::ClosedLoop);
    let durations = text
        .lines()
        .filter_map(|line| line.split('\t').nth(2)?.parse().ok());
    durations.for_each(|us| collector.record(Duration::from_micros(us)));
    collector
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "finished in 2.00s, 100 req/s, 1KB/s\n\
        requests: 200 total, 232 started, 200 done, 200 succeeded, 0 failed, 0 errored, 0 timeout\n\
        status codes: 200 2xx, 0 3xx, 0 4xx, 0 5xx\n\
        traffic: 30.10KB (30822) total, 2.00KB (2048) headers (space savings 90%), 25.00KB (25600) data\n";

    #[test]
    fn the_summary_is_read_and_checked() {
        assert_eq!(read_summary(TEXT, 128).expect("right").requests, 200);
        assert!(read_summary(TEXT, 129).is_err(), "bodies were short");
        assert!(read_summary(&TEXT.replace("200 2xx", "199 2xx"), 128).is_err());
        assert!(read_summary(&TEXT.replace("0 failed", "1 failed"), 128).is_err());
        assert!(read_summary("nothing", 128).is_err());
    }

    #[test]
    fn the_log_is_read() {
        let latency = read_log("1\t200\t50\n2\t200\t70\n")
            .latency()
            .expect("some");
        assert!((latency.at(1.0).expect("kept") - 70.0).abs() < 1.0);
    }
}
