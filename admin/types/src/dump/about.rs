//! Version, runtime state, source and certificates.

use serde::{Deserialize, Serialize};

/// Versions of a dump.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Version of the proxy.
    pub gateway: String,
    /// Version of the dump format; readers reject other versions.
    pub format: u32,
    /// Sequence number of the configuration, from 1; 0 before the first one.
    #[serde(default)]
    pub configuration: u64,
}

impl Version {
    /// The format version of these types.
    pub const FORMAT: u32 = 1;
}

/// State of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Runtime {
    /// The request threads, in the order of their ids.
    pub shards: Vec<Shard>,
    /// Ids of the CPUs that the process may use.
    pub cpus: Vec<usize>,
    /// Limit of file descriptors for connections, per shard.
    pub descriptors_per_shard: u32,
    /// Time since the start of the process.
    pub uptime_seconds: u64,
    /// Node that it runs on, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Zone that it runs in, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What readiness waits for, such as `listeners`; empty when ready.
    pub pending: Vec<String>,
    /// Binds that could not be bound; the proxy keeps retrying.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub binds_down: Vec<BindDown>,
    /// JWKS that could not be fetched, or have not been fetched yet; the proxy keeps retrying.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys_missing: Vec<KeysMissing>,
    /// Health checks that do not do what they are configured for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limited_health_checks: Vec<LimitedHealthCheck>,
    /// Objects in files whose previous version stays in effect, since the current one is invalid or
    /// unreadable, such as `HTTPRoute shop/web`; the log has the reasons. At most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub previous_versions: Vec<String>,
    /// What is wrong with the objects in files, the worst first; empty where a controller reports it. At most
    /// 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// Something that is wrong with an object in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// `error`, `warning` or `note`.
    pub level: String,
    /// Place, object, field, what is wrong, and what to do.
    pub text: String,
    /// The hosts of the route that has no parent because of it, such as `shop.example`; `*` where it is for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// A bind whose socket is down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BindDown {
    /// Key of the bind.
    pub bind: String,
    /// IP address and port that could not be bound.
    pub address: String,
    /// The error, and what to do about it.
    pub reason: String,
    /// The first of its listeners, such as ``Gateway shop/edge, listener `http` ``; empty from proxies of older versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<String>,
}

/// A JWKS without current keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeysMissing {
    /// Where it is fetched from, without credentials.
    pub from: String,
    /// The first of the policies that need it, such as ``TrafficPolicy shop/tokens, provider `idp` ``; empty from
    /// proxies of older versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// Time since the last successful fetch; before the first one, since it is in the configuration.
    pub seconds: u64,
    /// Whether keys of an earlier fetch are in use.
    pub was_fetched: bool,
    /// Why the last fetch failed; None during the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A health check that does not do what it is configured for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitedHealthCheck {
    /// The service or backend: `Service/namespace/name`.
    pub target: String,
    /// What happens.
    pub state: HealthCheckLimit,
    /// Since when.
    pub seconds: u64,
    /// The same for people, and why.
    pub text: String,
}

/// What happens to a health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HealthCheckLimit {
    /// Its failures are ignored, because too many endpoints fail.
    Ignored,
    /// Its intervals are longer than configured, because all probes of the proxy have a limit.
    Stretched,
}

/// A request thread, which runs its own event loop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Shard {
    /// Number of the shard, from 0.
    pub id: u16,
    /// I/O driver: `io-uring`, `epoll`, or `none` before it has started.
    pub driver: String,
    /// Why the driver is not io_uring; None where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The CPU it is pinned to; None where it is not pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<usize>,
    /// Time since the last iteration of its event loop.
    pub heartbeat_ms: u64,
    /// Number of open client connections.
    pub connections: u64,
    /// Whether it did not respond in time when queried for this dump.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stuck: bool,
}

/// Source of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// Files or a controller.
    pub kind: SourceKind,
    /// Files and directories, or the address of the controller.
    pub from: Vec<String>,
    /// Time since the current configuration was loaded; None before the first one.
    pub age_seconds: Option<u64>,
    /// Number of conditions that report a problem; of files also the errors in them.
    pub problems: u64,
    /// Whether the controller is connected; None for files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// Time since it connected or disconnected; None before the first connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_seconds_ago: Option<u64>,
    /// Streams that the controller has begun; None for files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u64>,
    /// Why the last stream failed; None where none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Whether the configuration was restored from the cache of an earlier process and the
    /// controller has sent nothing since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub restored: bool,
    /// State of each xDS resource type; empty for files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypeState>,
}

/// Where the configuration comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceKind {
    /// Files on this machine.
    #[default]
    Files,
    /// A controller, over xDS.
    Xds,
}

/// State of an xDS resource type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TypeState {
    /// Category, such as `routes`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Version of all accepted resources together: proxies with the same resources have the same.
    pub version: String,
    /// Number of accepted responses.
    pub acks: u64,
    /// Number of responses with a rejected resource.
    pub nacks: u64,
    /// Time since the last accepted response; None before the first one.
    pub acked_seconds_ago: Option<u64>,
    /// Time since the last rejected response; None before the first one.
    pub refused_seconds_ago: Option<u64>,
    /// Why a resource was rejected; None where none is any more.
    pub refused: Option<String>,
}

/// A certificate, without its private key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Certificate {
    /// Keys of the listeners and policies that use it.
    pub used_by: Vec<String>,
    /// Distinguished name of the subject.
    pub subject: String,
    /// Distinguished name of the issuer.
    pub issuer: String,
    /// Subject alternative names, such as `*.example.com` or `10.0.0.1`.
    pub sans: Vec<String>,
    /// Start of validity (RFC 3339).
    pub not_before: String,
    /// End of validity (RFC 3339).
    pub not_after: String,
    /// SHA-256 of the DER encoding, in hexadecimal.
    pub fingerprint: String,
}
