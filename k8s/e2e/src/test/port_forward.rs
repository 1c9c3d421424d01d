//! Local ports that are forwarded to Services, as an operator does with kubectl.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result};
use tokio::task::spawn_blocking;

use super::scope::Scope;

/// A forwarded port, until it is dropped.
pub(super) struct ForwardedPort {
    process: Child,
    number: u16,
    /// kubectl prints a line for each connection, and exits when its output is closed.
    _told: BufReader<ChildStdout>,
}

impl ForwardedPort {
    /// Forwards a free port to one of a Service.
    pub(super) async fn to_service(scope: &Scope, service: &str, port: u16) -> Result<Self> {
        let mut command = scope.command("kubectl");
        command
            .args([
                "port-forward",
                &format!("service/{service}"),
                &format!(":{port}"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        spawn_blocking(move || Self::start(command)).await?
    }

    fn start(mut command: Command) -> Result<Self> {
        let mut process = command.spawn().context("cannot run kubectl port-forward")?;
        let mut told = BufReader::new(process.stdout.take().context("it was piped")?);
        let mut line = String::new();
        told.read_line(&mut line)?;
        // `Forwarding from 127.0.0.1:40001 -> 8080`
        let number = line.split([':', ' ']).nth(3).and_then(|it| it.parse().ok());
        Ok(Self {
            process,
            number: number.with_context(|| format!("kubectl forwards no port: {line}"))?,
            _told: told,
        })
    }

    pub(super) fn number(&self) -> u16 {
        self.number
    }
}

impl Drop for ForwardedPort {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
