//! Scenarios, read from the TOML files of `bench/scenarios`.
//!
//! A file describes one scenario. Each `[[variant]]` table overrides fields of the file, so that a
//! variant names only what differs; the result is a flat list of [`Case`]s, which is all that the
//! rest of the harness uses.

use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// A scenario with one of its variants applied.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Number of the scenario, such as `S9`.
    pub(crate) id: String,
    /// Name of the variant; empty where a scenario has one only.
    #[serde(default)]
    pub(crate) variant: String,
    /// One line for tables and plots.
    pub(crate) title: String,
    /// The scenario's purpose, for readers.
    pub(crate) why: String,
    /// Protocol between clients and proxy.
    pub(crate) front: ClientProtocol,
    /// Protocol between proxy and origin.
    #[serde(default)]
    pub(crate) upstream: Upstream,
    /// Worker threads the proxy may use.
    #[serde(default = "one")]
    pub(crate) workers: usize,
    /// The routing table of the proxy.
    #[serde(default)]
    pub(crate) routes: Routes,
    /// Length of a slice in milliseconds, if `--slice` does not fit.
    #[serde(default)]
    pub(crate) slice_ms: Option<NonZeroU64>,
    /// Interval of configuration changes during the load, in milliseconds.
    #[serde(default)]
    pub(crate) churn_ms: Option<u64>,
    /// The operator's requests during the load.
    #[serde(default)]
    pub(crate) inside: Option<AdminLoad>,
    /// Whether the gateway samples allocations, as it does by default.
    #[serde(default = "yes")]
    pub(crate) heap_sampling: bool,
    /// Whether threads that serve no requests may also run on the cores of load and origin; the
    /// workers stay on theirs.
    #[serde(default)]
    pub(crate) apart: bool,
    /// Peers to run; empty means all.
    #[serde(default)]
    pub(crate) peers: Vec<String>,
    /// The load of the clients.
    pub(crate) load: Load,
    /// Performance targets of the gateway.
    #[serde(default, rename = "target")]
    pub(crate) targets: Vec<Target>,
}

/// Protocol between clients and proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClientProtocol {
    /// HTTP/1.1 in plain text.
    Http1,
    /// HTTP/1.1 over TLS 1.3.
    Tls,
    /// HTTP/2 without TLS, by prior knowledge.
    H2c,
    /// HTTP/2 over TLS 1.3.
    H2Tls,
    /// WebSocket upgraded from HTTP/1.1.
    WebSocket,
    /// gRPC over HTTP/2 without TLS.
    Grpc,
}

/// The operator's requests during a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AdminLoad {
    /// The whole configuration dump, repeatedly.
    Dump,
    /// A CPU profile, continuously.
    Profile,
    /// An active trace that is never read.
    Trace,
    /// The metrics, every second.
    Scrape,
}

/// Protocol between proxy and origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Upstream {
    /// HTTP/1.1 in plain text.
    #[default]
    Http1,
    /// HTTP/2 in plain text.
    H2c,
}

/// The routing table a proxy is given. The load always hits the last entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Routes {
    /// How the routes are distinguished.
    pub(crate) by: RouteKey,
    /// How many there are.
    pub(crate) count: usize,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            by: RouteKey::Nothing,
            count: 1,
        }
    }
}

/// What distinguishes the routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RouteKey {
    /// A single route matches everything.
    Nothing,
    /// Each route has its own host name.
    Hosts,
    /// All share one host; each has its own path prefix.
    Prefixes,
}

impl Routes {
    /// The `Host` the load sends.
    pub(crate) fn host(&self) -> String {
        match self.by {
            RouteKey::Hosts => host_name(self.count.saturating_sub(1)),
            RouteKey::Nothing | RouteKey::Prefixes => "bench.example".to_owned(),
        }
    }

    /// `path` below the prefix of the last route.
    pub(crate) fn path(&self, path: &str) -> String {
        match self.by {
            RouteKey::Prefixes => format!("{}{path}", prefix(self.count.saturating_sub(1))),
            RouteKey::Nothing | RouteKey::Hosts => path.to_owned(),
        }
    }
}

/// Host name of the route of this number.
pub(crate) fn host_name(number: usize) -> String {
    format!("h{number}.bench.example")
}

/// Path prefix of the route of this number.
pub(crate) fn prefix(number: usize) -> String {
    format!("/p{number}")
}

/// The load of the clients.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    pub(crate) with: Loader,
    /// Connections (or threads, for handshakes).
    pub(crate) connections: usize,
    /// Concurrent streams per HTTP/2 connection.
    #[serde(default = "one")]
    pub(crate) streams: usize,
    /// Requests per second over all connections; none means as fast as answers come.
    #[serde(default)]
    pub(crate) rate: Option<u32>,
    /// Size of the body: of the response, or of what is sent and echoed.
    #[serde(default)]
    pub(crate) bytes: usize,
    /// Send the body and have it echoed.
    #[serde(default)]
    pub(crate) echo: bool,
    /// A new connection for each request.
    #[serde(default)]
    pub(crate) close: bool,
    #[serde(default)]
    pub(crate) resume: bool,
    /// Messages per gRPC stream; 1 is a unary call.
    #[serde(default = "one")]
    pub(crate) messages: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Loader {
    /// wrk: HTTP/1, flat out.
    Wrk,
    /// Built in: HTTP/1 and WebSocket, at full speed or a fixed rate, every byte verified.
    Paced,
    /// h2load: HTTP/2, flat out.
    H2load,
    /// Built in: opens connections, uses each once and keeps it.
    Idle,
    /// Built in: one TLS handshake for each request.
    Handshake,
    Grpc,
}

/// A performance target of the gateway.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    #[serde(default)]
    pub(crate) metric: Metric,
    /// `floor`, `peers` (the best present), a peer's name, or `case:S15/one` for the gateway itself
    /// in another case. Absent: `factor` is an absolute bound.
    #[serde(default)]
    pub(crate) against: Option<String>,
    /// The gateway's value must be at most this many times the other's.
    pub(crate) factor: f64,
}

/// The metric that a target compares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Metric {
    #[default]
    Cpu,
    /// Time per request: the inverse of throughput.
    Time,
    P50,
    /// The 99th percentile of latency.
    P99,
    /// Resident bytes per idle connection.
    RssPerConnection,
    /// Requests lost in a run.
    Lost,
}

impl Case {
    /// `S9/hosts-5000`, or `S1` if there is only one variant.
    pub(crate) fn name(&self) -> String {
        if self.variant.is_empty() {
            self.id.clone()
        } else {
            format!("{}/{}", self.id, self.variant)
        }
    }

    /// Whether both can be measured on one running proxy, with one origin and one load: they differ
    /// only in the operator's requests.
    pub(crate) fn shares_set_up(&self, other: &Self) -> bool {
        let set_up = |case: &Self| Self {
            variant: String::new(),
            inside: None,
            targets: Vec::new(),
            ..case.clone()
        };
        set_up(self) == set_up(other)
    }

    /// Path of the requests.
    pub(crate) fn path(&self) -> String {
        let path = match self.front {
            ClientProtocol::WebSocket => "/ws".to_owned(),
            ClientProtocol::Grpc => "/bench.Echo/Call".to_owned(),
            _ if self.load.echo => "/echo".to_owned(),
            _ => format!("/bytes/{}", self.load.bytes),
        };
        self.routes.path(&path)
    }

    /// Length of a slice, if it needs one of its own.
    pub(crate) fn slice(&self) -> Option<Duration> {
        self.slice_ms.map(|ms| Duration::from_millis(ms.get()))
    }

    /// How often the configuration changes during the load.
    pub(crate) fn churn(&self) -> Option<Duration> {
        self.churn_ms.map(Duration::from_millis)
    }

    /// Whether clients speak TLS.
    pub(crate) fn encrypted(&self) -> bool {
        matches!(self.front, ClientProtocol::Tls | ClientProtocol::H2Tls)
    }
}

/// Reads every scenario of `folder`, in the order of their numbers.
pub(crate) fn read_folder(folder: &Path) -> Result<Vec<Case>> {
    let entries = std::fs::read_dir(folder).with_context(|| {
        format!(
            "no scenarios in {}: pass --scenarios-folder",
            folder.display()
        )
    })?;
    let mut paths: Vec<_> = entries
        .map(|e| e.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    paths.retain(|p| p.extension().is_some_and(|e| e == "toml"));
    let mut cases = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        cases.extend(parse(&text).with_context(|| format!("in {}", path.display()))?);
    }
    cases.sort_by_key(|c| order(&c.id));
    Ok(cases)
}

/// Sorts S1, S1r, S2 … S10 by number, then by letter.
fn order(id: &str) -> (usize, String) {
    let digits: String = id.chars().filter(char::is_ascii_digit).collect();
    (digits.parse().unwrap_or(usize::MAX), id.to_owned())
}

/// The cases of one file.
pub(crate) fn parse(text: &str) -> Result<Vec<Case>> {
    let mut base: Table = text.parse()?;
    let variants = match base.remove("variants") {
        Some(Value::Array(list)) => list,
        Some(_) => anyhow::bail!("`variants` must be an array of tables"),
        None => vec![Value::Table(Table::new())],
    };
    variants.into_iter().map(|over| case(&base, over)).collect()
}

fn case(base: &Table, over: Value) -> Result<Case> {
    let mut merged = Value::Table(base.clone());
    merge(&mut merged, over);
    let case: Case = merged.try_into()?;
    ensure!(
        case.load.connections > 0,
        "{}: `connections` must be positive",
        case.name()
    );
    ensure!(
        case.routes.count > 0,
        "{}: `routes.count` must be positive",
        case.name()
    );
    ensure!(
        case.workers > 0,
        "{}: `workers` must be positive",
        case.name()
    );
    Ok(case)
}

fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Table(base), Value::Table(over)) => {
            for (key, value) in over {
                match base.get_mut(&key) {
                    Some(slot) => merge(slot, value),
                    None => drop(base.insert(key, value)),
                }
            }
        }
        (slot, value) => *slot = value,
    }
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_inherit_the_fields_they_do_not_set() {
        let cases = parse(
            r#"
            id = "S9"
            title = "t"
            why = "w"
            front = "http1"
            load = { with = "wrk", connections = 64, bytes = 128 }
            variants = [
                { variant = "one" },
                { variant = "hosts", routes = { by = "hosts", count = 500 }, load = { connections = 8 } },
            ]
            "#,
        )
        .expect("parses");
        assert_eq!(cases[0].name(), "S9/one");
        assert_eq!(cases[0].load.connections, 64);
        assert_eq!(cases[1].load.connections, 8);
        assert_eq!(cases[1].load.bytes, 128);
        assert_eq!(cases[1].routes.host(), "h499.bench.example");
        assert_eq!(cases[1].path(), "/bytes/128");
    }

    #[test]
    fn variants_that_differ_only_in_inspection_share_a_setup() {
        let cases = parse(
            r#"
            id = "S16"
            title = "t"
            why = "w"
            front = "http1"
            load = { with = "wrk", connections = 64 }
            variants = [
                { variant = "nothing", target = [{ factor = 1.0 }] },
                { variant = "dump", inside = "dump" },
                { variant = "no-sampling", heap_sampling = false },
                { variant = "churn", churn_ms = 500 },
                { variant = "fewer", load = { connections = 8 } },
            ]
            "#,
        )
        .expect("parses");
        let with_nothing: Vec<_> = cases
            .iter()
            .map(|case| cases[0].shares_set_up(case))
            .collect();
        assert_eq!(with_nothing, [true, true, false, false, false]);
    }

    #[test]
    fn misspelt_keys_are_rejected() {
        let text = "id='S1'\ntitle='t'\nwhy='w'\nfront='http1'\nload={with='wrk',conections=1}";
        assert!(parse(text).is_err());
    }

    #[test]
    fn shipped_scenarios_parse_in_order() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let cases = read_folder(&folder).expect("parse");
        let mut ids: Vec<_> = cases.iter().map(|c| c.id.as_str()).collect();
        ids.dedup();
        let all = "S1 S1r S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S13 S14 S15 S16 S17 S18";
        assert_eq!(ids.join(" "), all);
    }
}
