//! h2load: the load for HTTP/2 at full speed.
//!
//! It ends only after its time, and prints nothing if it is ended earlier. So its log provides the
//! status of every request, and the kernel the number of bytes read. Its latencies are not used, as
//! with wrk.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::external::External;
use super::target::LoadTarget;
use super::turn::{LoadResult, ResponseCount};
use crate::scenario::Load;

/// h2load, stopped between its turns.
#[derive(Debug)]
pub(super) struct H2load {
    process: External,
    log: PathBuf,
    load: Load,
}

impl H2load {
    pub(super) fn start(target: LoadTarget<'_>) -> Result<Self> {
        let log = target.folder.join("h2load.log");
        let load = target.case.load.clone();
        let mut command = Command::new("h2load");
        command.args(["-t1", "-c", &load.connections.to_string()]);
        command.args(["-m", &load.streams.to_string()]);
        // Longer than any round.
        command.args(["-D", "24h"]);
        command.arg(format!("--log-file={}", log.display()));
        let scheme = if target.case.encrypted() {
            "https"
        } else {
            "http"
        };
        let (address, path) = (target.address, target.case.path());
        command.arg(format!("{scheme}://{address}{path}"));
        let process = External::start(command, target.folder)?;
        Ok(Self { process, log, load })
    }
}

impl super::Load for H2load {
    fn turn(&mut self, duration: Duration) -> Result<LoadResult> {
        let seconds = self.process.turn(duration).context("h2load")?;
        Ok(LoadResult {
            seconds,
            ..LoadResult::default()
        })
    }

    fn end(&mut self) -> Result<ResponseCount> {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.process.pid()))?;
        let read = bytes_read(&io).context("the kernel does not report how much h2load read")?;
        self.process.kill()?;
        let log = std::fs::read_to_string(&self.log)?;
        account(&log, read, &self.load)
    }
}

fn bytes_read(io: &str) -> Option<u64> {
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "))?;
    line.parse().ok()
}

/// Of the log, a line per request: start in µs, status (-1 if it failed), duration in µs.
fn account(log: &str, read: u64, load: &Load) -> Result<ResponseCount> {
    let mut requests = 0;
    for line in log.lines() {
        let status = line.split('\t').nth(1).unwrap_or_default();
        ensure!(status == "200", "a request ended with status {status}");
        requests += 1;
    }
    ensure!(requests > 0, "no request was answered");
    let least = requests * load.bytes as u64;
    ensure!(read >= least, "{read} bytes received instead of {least}");
    Ok(ResponseCount {
        requests,
        unanswered: (load.connections * load.streams) as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    fn count_of(log: &str, read: u64) -> Result<ResponseCount> {
        let case = "id='T'\ntitle='t'\nwhy='w'\nfront='h2c'\n\
                    load={with='h2load',connections=4,streams=8,bytes=100}";
        let case = parse(case)?.remove(0);
        account(log, read, &case.load)
    }

    #[test]
    fn the_h2load_log_is_parsed_and_checked() {
        let account = count_of("1\t200\t50\n2\t200\t70\n", 200).expect("right");
        assert_eq!((account.requests, account.unanswered), (2, 32));
        assert!(count_of("1\t200\t50\n2\t200\t70\n", 199).is_err(), "short");
        assert!(count_of("1\t200\t50\n2\t502\t70\n", 200).is_err());
        assert!(count_of("1\t-1\t50\n", 200).is_err());
        assert!(count_of("", 200).is_err());
    }

    #[test]
    fn the_number_of_bytes_read_is_parsed() {
        assert_eq!(bytes_read("rchar: 350484\nwchar: 9\n"), Some(350_484));
        assert_eq!(bytes_read("wchar: 9\n"), None);
    }
}
