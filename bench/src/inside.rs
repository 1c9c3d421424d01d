//! The operator's requests during a load: they go to the gateway's admin and metrics servers over
//! unix sockets in its folder.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::thread::sched_yield;

use crate::scenario::AdminLoad;

/// Socket of the admin server.
pub(crate) const ADMIN: &str = "admin.sock";
/// Socket of the metrics.
pub(crate) const METRICS: &str = "metrics.sock";

/// Sends requests until it is `done`; returns how many were answered or in progress.
pub(crate) fn generate_load(inside: AdminLoad, folder: &Path, done: &AtomicBool) -> Result<u64> {
    let (socket, path, then) = match inside {
        AdminLoad::Dump => (ADMIN, "/config_dump", Consumption::Repeat(Duration::ZERO)),
        AdminLoad::Scrape => (
            METRICS,
            "/metrics",
            Consumption::Repeat(Duration::from_secs(1)),
        ),
        // Longer than any turn; it ends with its reader.
        AdminLoad::Profile => (ADMIN, "/debug/pprof/profile?seconds=60", Consumption::Read),
        // No request matches, so the trace stays armed; its client does not read.
        AdminLoad::Trace => (
            ADMIN,
            "/debug/trace?count=10000&match=GET%20nowhere.bench.example/&timeout=60s",
            Consumption::Leave,
        ),
    };
    let mut looks = 0;
    while !done.load(Ordering::Acquire) {
        let mut stream = UnixStream::connect(folder.join(socket))?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        looks += 1;
        if then == Consumption::Leave {
            wait(Duration::MAX, done);
            return Ok(looks);
        }
        if !drain(&mut stream, done).with_context(|| format!("GET {path}"))? {
            break;
        }
        if let Consumption::Repeat(pause) = then {
            wait(pause, done);
        }
    }
    ensure!(looks > 0, "the load ended before it could be read");
    Ok(looks)
}

/// How a response is consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consumption {
    /// Read to the end, and requested again after a pause.
    Repeat(Duration),
    Read,
    Leave,
}

/// Reads a response to its end, or until it is `done`; returns whether it was complete.
fn drain(stream: &mut UnixStream, done: &AtomicBool) -> Result<bool> {
    stream.set_read_timeout(Some(LOOK_UP))?;
    let mut buffer = [0; 4 * 1024];
    let mut first = true;
    while !done.load(Ordering::Acquire) {
        match stream.read(&mut buffer) {
            Ok(0) => {
                ensure!(!first, "no response");
                return Ok(true);
            }
            Ok(count) => {
                let read = buffer.get(..count).unwrap_or_default();
                let excerpt =
                    String::from_utf8_lossy(read.get(..count.min(200)).unwrap_or_default());
                ensure!(
                    !first || read.starts_with(b"HTTP/1.1 200 "),
                    "unexpected response: {excerpt}"
                );
                first = false;
                // The load has priority on this core: the reader is not part of what is measured.
                sched_yield();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Waits for `pause`, or until it is `done`.
pub(crate) fn wait(pause: Duration, done: &AtomicBool) {
    let mut left = pause;
    while !left.is_zero() && !done.load(Ordering::Acquire) {
        let step = left.min(LOOK_UP);
        std::thread::sleep(step);
        left -= step;
    }
}

/// Interval of checking whether to stop.
const LOOK_UP: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn an_inspection_request_in_progress_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join(ADMIN)).expect("a socket");
        let done = AtomicBool::new(false);
        let looks = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (stream, _) = listener.accept().expect("a look");
                let mut line = String::new();
                BufReader::new(&stream)
                    .read_line(&mut line)
                    .expect("a request");
                assert!(line.starts_with("GET /debug/trace?"), "{line}");
                done.store(true, Ordering::Release);
            });
            generate_load(AdminLoad::Trace, folder.path(), &done).expect("nothing is read")
        });
        assert_eq!(looks, 1);
    }

    #[test]
    fn a_response_is_read_and_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join(METRICS)).expect("a socket");
        let done = AtomicBool::new(false);
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a look");
                let answer = b"HTTP/1.1 503 Service Unavailable\r\n\r\n";
                stream.write_all(answer).expect("it is read");
            });
            generate_load(AdminLoad::Scrape, folder.path(), &done).expect_err("503 is no answer")
        });
        assert!(format!("{error:#}").contains("503"), "{error:#}");
    }
}
