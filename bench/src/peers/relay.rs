//! Our bare relays as peers: this very binary, run as `bench relay`.

use std::process::Command;

use anyhow::Result;

use super::{Peer, Role, Topology, relay_unable};
use crate::relay::Driver;
use crate::scenario::Case;

/// `bench relay` on one of its drivers.
pub(crate) struct Relay(pub(crate) Driver);

impl Peer for Relay {
    fn name(&self) -> &'static str {
        match self.0 {
            Driver::Epoll => "relay-epoll",
            Driver::IoUring => "relay-io-uring",
        }
    }

    fn role(&self) -> Role {
        Role::Floor
    }

    fn version(&self) -> Result<String> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn unable(&self, case: &Case) -> Option<&'static str> {
        if case.workers > 1 {
            return Some("a relay has one worker");
        }
        relay_unable(case)
    }

    fn prepare(&self, topology: &Topology) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["relay", "--driver", self.0.name()]);
        command.args(["--listen", &topology.listen.to_string()]);
        command.args(["--to", &topology.origin.to_string()]);
        Ok(command)
    }

    fn ring(&self) -> Option<bool> {
        Some(self.0 == Driver::IoUring)
    }
}
