//! What stands beside the seven lists: version, runtime, source, certificates.

use serde::{Deserialize, Serialize};

/// What wrote a dump.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Version of the proxy.
    pub gateway: String,
    /// Version of the dump's form; one with another number may not be readable.
    pub format: u32,
    /// Number of the configuration in force, from 1; 0 before the first one.
    #[serde(default)]
    pub configuration: u64,
}

impl Version {
    /// The form that these types have.
    pub const FORMAT: u32 = 1;
}

/// How the proxy runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Runtime {
    /// The request threads.
    pub shards: Vec<Shard>,
    /// The CPUs that the process may use.
    pub cpus: Vec<usize>,
    /// File descriptors that each shard's connections may take.
    pub descriptors_per_shard: u32,
    /// For how long the process has run, in seconds.
    pub uptime_seconds: u64,
    /// What it is not ready for yet, such as `listeners`; nothing where it is ready.
    pub pending: Vec<String>,
    /// The binds that it cannot listen on; it tries again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub binds_down: Vec<BindDown>,
}

/// A bind that the proxy cannot listen on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BindDown {
    /// Its key.
    pub bind: String,
    /// Where it was to listen.
    pub address: String,
    /// Why it cannot, and what to do.
    pub reason: String,
}

/// A request thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Shard {
    /// Its number.
    pub id: u16,
    /// How it talks to the kernel.
    pub driver: String,
    /// Why not in a better way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The core it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<usize>,
    /// How long ago its event loop last turned.
    pub heartbeat_ms: u64,
    /// Client connections it has.
    pub connections: u64,
    /// Whether it gave no answer in time where it was asked how endpoints fare: in a whole dump.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stuck: bool,
}

/// Where the configuration comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// Files or a controller.
    pub kind: SourceKind,
    /// The files or folders, or the controller's address.
    pub from: Vec<String>,
    /// For how long the configuration in force has been so, in seconds.
    pub age_seconds: Option<u64>,
    /// Objects of the configuration that are not as they should be.
    pub problems: u64,
    /// Whether the controller is connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// What was received from the controller, by type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypeState>,
}

/// Files or a controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceKind {
    /// Files of this machine.
    #[default]
    Files,
    /// A controller, over xDS.
    Xds,
}

/// What was received of one type of resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TypeState {
    /// Its category, such as `routes`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The last version that was accepted.
    pub version: String,
    /// How long ago the last response was accepted, in seconds.
    pub acked_seconds_ago: Option<u64>,
    /// Why the last response was refused, if it was.
    pub refused: Option<String>,
}

/// A certificate; never its key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Certificate {
    /// Keys of the listeners and backends that use it.
    pub used_by: Vec<String>,
    /// Whose it is.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// The names it is for.
    pub sans: Vec<String>,
    /// From when on it holds (RFC 3339).
    pub not_before: String,
    /// Until when it holds (RFC 3339).
    pub not_after: String,
    /// SHA-256 of the certificate, in hexadecimal digits.
    pub fingerprint: String,
}
