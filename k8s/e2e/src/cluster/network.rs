//! The network of a cluster: a namespace for its clients, a link from there to each node, and what
//! happens to packets between nodes.
//!
//! The clients' namespace forwards between nodes and has no other way out, so nothing that a test does
//! leaves the machine, and clusters use the same addresses side by side.

use std::fs::File;
use std::os::fd::AsFd as _;

use anyhow::{Context as _, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::address;
use super::component::Component;
use super::control::{self, Request};
use super::network_namespace::NetworkNamespace;
use super::{Cluster, configuration};
use crate::args::Condition;
use crate::process;

/// Priority and table of the routing rules that emulate network conditions.
const PRIORITY: &str = "100";
const TABLE: &str = "100";

/// The link that the emulator reads packets from and writes them back to.
pub(super) const EMULATED: &str = "emulated";

impl Cluster {
    /// Moves this thread into the network of the cluster's clients.
    pub(crate) fn enter_client_network(&self) -> Result<()> {
        let path = self.namespace_file();
        let file = File::open(&path)
            .with_context(|| format!("cannot open network namespace {}", path.display()))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("cannot enter network namespace {}", path.display()))
    }

    pub(super) fn create_client_network(&self) -> Result<()> {
        let mut add = process::command(&["ip", "netns", "add"]);
        process::run(add.arg(self.mark())).map(drop)?;
        self.client_ip("link set lo up")
    }

    /// Connects a node, whose supervisor runs, to the clients' network.
    pub(super) fn join_node(&self, number: u8) -> Result<()> {
        let place = NetworkNamespace::Node(number);
        let pid = control::supervisor_pid(&self.folder_of(place))?.to_string();
        let (node, client) = (address::node(number), address::client(number));
        let mark = self.mark();
        ip(&[
            "link",
            "add",
            "eth0",
            "netns",
            &pid,
            "type",
            "veth",
            "peer",
            "name",
            &link(number),
            "netns",
            &mark,
        ])?;
        node_ip(&pid, "link set lo up")?;
        node_ip(&pid, &format!("addr add {node}/24 dev eth0"))?;
        node_ip(&pid, "link set eth0 up")?;
        node_ip(&pid, &format!("route add default via {client}"))?;
        self.client_ip(&format!("addr add {client}/24 dev {}", link(number)))?;
        self.client_ip(&format!("link set {} up", link(number)))?;
        self.client_ip(&format!("route add {} via {node}", address::pods(number)))?;
        if place.is_first_node() {
            self.client_ip(&format!("route add {} via {node}", address::SERVICES))?;
        }
        Ok(())
    }

    pub(super) fn remove_client_network(&self) -> Result<()> {
        if !self.namespace_file().exists() {
            return Ok(());
        }
        let mut delete = process::command(&["ip", "netns", "del"]);
        process::run(delete.arg(self.mark())).map(drop)
    }

    /// Changes the conditions of the network between nodes.
    pub(crate) fn set_network(&self, condition: &Condition) -> Result<()> {
        self.check_up()?;
        self.heal()?;
        let (delay, loss) = match condition {
            Condition::Heal => return Ok(()),
            Condition::Cut => return self.rule_between_nodes("blackhole"),
            Condition::Delay { by } => (by.as_millis(), 0),
            Condition::Loss { share } => (0, *share),
        };
        let folder = self.folder_of(NetworkNamespace::Client);
        let words = format!("e2e emulate {delay} {loss}");
        configuration::write(&folder.join("emulator"), &words)?;
        control::send(&folder, &Request::Start(Component::Emulator))?;
        process::wait_for("the emulator of the network", control::TIMEOUT, || {
            self.check_running(NetworkNamespace::Client)?;
            let shown =
                process::run(&mut self.client_command(&["ip", "link", "show", EMULATED, "up"]));
            Ok(shown.ok().filter(|text| !text.is_empty()))
        })?;
        self.client_ip(&format!(
            "route replace default dev {EMULATED} table {TABLE}"
        ))?;
        self.rule_between_nodes(&format!("lookup {TABLE}"))
    }

    fn heal(&self) -> Result<()> {
        // Each call deletes one rule.
        while self
            .client_ip(&format!("rule del priority {PRIORITY}"))
            .is_ok()
        {}
        self.halt(Component::Emulator, NetworkNamespace::Client, true)
    }

    /// Matches packets from one node to another node or its pods.
    fn rule_between_nodes(&self, action: &str) -> Result<()> {
        let count = self.nodes().len();
        let numbers = || (0..u8::MAX).take(count);
        for (from, to) in numbers().flat_map(|from| numbers().map(move |to| (from, to))) {
            if from == to {
                continue;
            }
            for range in [address::link(to), address::pods(to)] {
                let link = link(from);
                self.client_ip(&format!(
                    "rule add priority {PRIORITY} iif {link} to {range} {action}"
                ))?;
            }
        }
        Ok(())
    }

    fn client_ip(&self, words: &str) -> Result<()> {
        let mut command = process::command(&["ip", "-n", &self.mark()]);
        process::run(command.args(words.split(' '))).map(drop)
    }
}

/// The client's end of a node's link.
fn link(number: u8) -> String {
    format!("node{number}")
}

fn ip(words: &[&str]) -> Result<()> {
    let mut command = process::command(&["ip"]);
    process::run(command.args(words)).map(drop)
}

fn node_ip(pid: &str, words: &str) -> Result<()> {
    let mut command = process::command(&["nsenter", "-t", pid, "-n", "ip"]);
    process::run(command.args(words.split(' '))).map(drop)
}
