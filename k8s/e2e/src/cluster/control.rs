//! The control protocol of a supervisor: one line of JSON each way, over a unix socket in the
//! folder of its place.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::component::Component;

/// Timeout of a response, which normally takes microseconds.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Request {
    Start(Component),
    Signal(Component, i32),
    Status,
}

/// The states of the components after the request, or why it failed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    Components(BTreeMap<Component, State>),
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    Running,
    Ended(String),
}

pub(super) fn socket(folder: &Path) -> PathBuf {
    folder.join("control")
}

/// Whether a supervisor listens in this folder.
pub(super) fn is_there(folder: &Path) -> bool {
    UnixStream::connect(socket(folder)).is_ok()
}

/// The process ID of a supervisor, from the socket's peer credentials.
pub(super) fn supervisor_pid(folder: &Path) -> Result<i32> {
    let stream = connect(folder)?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)
        .context("cannot find the process of a supervisor")?;
    Ok(peer.pid.as_raw_pid())
}

/// Sends a request to a supervisor, and returns the states of its components.
pub(super) fn send(folder: &Path, request: &Request) -> Result<BTreeMap<Component, State>> {
    let mut stream = connect(folder)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut line = serde_json::to_string(request).context("a request is JSON")?;
    line.push('\n');
    stream
        .write_all(line.as_bytes())
        .context("cannot write to a supervisor")?;
    let mut answer = String::new();
    BufReader::new(stream)
        .read_line(&mut answer)
        .context("a supervisor does not respond")?;
    match serde_json::from_str(&answer).context("a supervisor's response is malformed")? {
        Reply::Components(components) => Ok(components),
        Reply::Refused(reason) => bail!("{reason}"),
    }
}

fn connect(folder: &Path) -> Result<UnixStream> {
    UnixStream::connect(socket(folder)).with_context(|| {
        format!(
            "cannot reach the supervisor of {}: see its log, or start the cluster again",
            folder.display()
        )
    })
}
