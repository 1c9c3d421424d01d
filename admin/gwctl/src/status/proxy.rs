//! The state of a Gateway's proxies, as they report it.

use std::time::Duration;

use admin_types::dump::{
    BindDown, Dump, HealthCheckLimit, KeysMissing, LimitedHealthCheck, Runtime,
};
use anyhow::Result;
use serde::Serialize;
use translate::Level;

use crate::client::Client;
use crate::cluster::PodState;
use crate::source::{Source, decode};

/// A proxy, or a pod in which none runs yet.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Proxy {
    pub(super) pod: String,
    pub(super) node: String,
    /// The state of its pod.
    pub(super) state: String,
    pub(super) ready: bool,
    /// None if it is not running or not reachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) own: Option<SelfReport>,
    /// Why it cannot be queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) silent: Option<String>,
}

/// The state of a proxy, as it reports it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SelfReport {
    pub(super) version: String,
    /// I/O driver: `io_uring` or `epoll`.
    pub(super) driver: String,
    /// Why the driver is not io_uring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) driver_reason: Option<String>,
    /// What it waits for before it is ready.
    pub(super) pending: Vec<String>,
    /// Ports that it cannot listen on, and why.
    pub(super) down: Vec<String>,
    /// JWKS that it could not fetch, since when, and why.
    pub(super) keys_missing: Vec<String>,
    /// Health checks that do not do what they are configured for, since when, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) limited_health_checks: Vec<LimitedHealthCheck>,
    /// Objects in files whose previous version stays in effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) previous_versions: Vec<String>,
    /// Whether it is connected to the controller, and for how long; its files, where it reads some.
    pub(super) controller: String,
    /// Why it is not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) disconnected: Option<String>,
    /// Number of the applied configuration and when it was applied, or why there is none.
    pub(super) configuration: String,
    /// Objects that it refuses, and why.
    pub(super) refused: Vec<String>,
}

impl Proxy {
    /// What does not work, with the level of each.
    pub(super) fn problems(&self) -> Vec<(Level, String)> {
        let proxy = match &*self.pod {
            UNNAMED => "the proxy".to_owned(),
            pod => format!("proxy {pod}"),
        };
        let mut found = Vec::new();
        let mut add = |level, text: String| found.push((level, text));
        if !self.ready && self.state != TERMINATING {
            let pending = self.own.as_ref().map(|it| it.pending.join(", "));
            let pending = pending.filter(|it| !it.is_empty());
            let pending = pending.map_or_else(String::new, |it| format!(", waiting for {it}"));
            add(Level::Error, format!("{proxy} is {}{pending}", self.state));
        }
        if let Some(silent) = &self.silent {
            let text =
                format!("{proxy} could not be asked, so part of the status is unknown: {silent}");
            add(Level::Error, text);
        }
        let Some(own) = &self.own else { return found };
        if let Some(why) = &own.disconnected {
            let text = format!(
                "{proxy} is not connected to the controller and serves its current configuration: {why}"
            );
            add(Level::Error, text);
        }
        for it in &own.refused {
            add(Level::Error, format!("{proxy} refuses {it}"));
        }
        for it in &own.down {
            add(Level::Error, format!("{proxy} cannot listen on {it}"));
        }
        for it in &own.keys_missing {
            add(Level::Error, format!("{proxy} lacks keys of {it}"));
        }
        for it in &own.limited_health_checks {
            let (level, what) = limit(it);
            add(level, format!("{proxy} {what}"));
        }
        for it in &own.previous_versions {
            let text = format!(
                "{proxy} keeps the previous version of {it}, as the one in its files is invalid: its log says \
                 why"
            );
            add(Level::Error, text);
        }
        if let Some(why) = &own.driver_reason {
            add(Level::Note, format!("{proxy} uses {}: {why}", own.driver));
        }
        found
    }
}

/// What a proxy does about health checks instead of what they are configured for.
fn limit(check: &LimitedHealthCheck) -> (Level, String) {
    let (level, what) = match check.state {
        HealthCheckLimit::Ignored => (Level::Error, "ignores health checks"),
        HealthCheckLimit::Stretched => (Level::Warning, "probes less often"),
    };
    (
        level,
        format!("{what} for {}s: {}", check.seconds, check.text),
    )
}

/// What stands for the name of a pod outside of clusters.
pub(super) const UNNAMED: &str = "proxy";
/// The state of a pod that another replaces.
const TERMINATING: &str = "Terminating";

/// Queries each pod that can be reached.
pub(super) fn query(pods: &[PodState], source: &Source) -> Result<Vec<Proxy>> {
    let mut proxies = Vec::new();
    for pod in pods {
        let mut proxy = Proxy {
            pod: pod.name.clone(),
            node: pod.node.clone(),
            state: pod.state.clone(),
            ready: pod.is_ready,
            ..Proxy::default()
        };
        if pod.is_running {
            let client = source.client_of(pod)?.limited(TIMEOUT);
            match query_one(&client) {
                Ok(own) => proxy.own = Some(own),
                Err(error) => proxy.silent = Some(format!("{error:#}")),
            }
        }
        proxies.push(proxy);
    }
    proxies.sort_by(|a, b| a.pod.cmp(&b.pod));
    Ok(proxies)
}

/// Timeout for the response of one proxy: 5 s, so that a stuck one does not hold up the others.
const TIMEOUT: Duration = Duration::from_secs(5);

fn query_one(client: &Client) -> Result<SelfReport> {
    Ok(of_dump(decode(
        &client.get("/config_dump?type=runtime")?,
        "the proxy",
    )?))
}

pub(super) fn of_dump(dump: Dump) -> SelfReport {
    let runtime = dump.runtime.unwrap_or_default();
    let source = dump.source;
    let refused = source.types.iter().filter_map(|it| {
        let why = it.refused.as_ref()?;
        Some(format!("{}: {why}", it.kind))
    });
    let changed = source.changed_seconds_ago.map(|it| format!(" for {it}s"));
    let changed = changed.unwrap_or_default();
    let (controller, disconnected) = match source.connected {
        None => ("none (reads files)".to_owned(), None),
        Some(true) => (format!("connected{changed}"), None),
        Some(false) => {
            let why = source.failure.clone();
            let why = why.unwrap_or_else(|| "it has not reached it yet".to_owned());
            (format!("disconnected{changed}"), Some(why))
        }
    };
    let configuration = match (source.age_seconds, source.restored) {
        (None, _) => "none yet".to_owned(),
        (Some(age), true) => format!("from its cache, {age}s ago"),
        (Some(age), false) => format!("{}, {age}s ago", dump.version.configuration),
    };
    SelfReport {
        version: dump.version.gateway,
        driver: driver(&runtime),
        driver_reason: runtime.shards.iter().find_map(|it| it.reason.clone()),
        down: runtime.binds_down.iter().map(bind_down).collect(),
        keys_missing: runtime.keys_missing.iter().map(keys_missing).collect(),
        limited_health_checks: runtime.limited_health_checks,
        previous_versions: runtime.previous_versions,
        pending: runtime.pending,
        controller,
        disconnected,
        configuration,
        refused: refused.collect(),
    }
}

fn bind_down(bind: &BindDown) -> String {
    let listeners = bind.listeners.join(" and ");
    let listeners = match &*listeners {
        "" => String::new(),
        listeners => format!(" for {listeners}"),
    };
    format!("{}{listeners}: {}", bind.address, bind.reason)
}

fn keys_missing(keys: &KeysMissing) -> String {
    let KeysMissing {
        from,
        policies,
        seconds,
        was_fetched,
        error,
    } = keys;
    let error = error.as_deref().unwrap_or("the first fetch is in progress");
    let effect = if *was_fetched {
        "earlier keys stay in use for a day"
    } else {
        "tokens that need them get 503"
    };
    let policies = match &*policies.join(" and ") {
        "" => String::new(),
        policies => format!(", needed by {policies},"),
    };
    format!(
        "{from}{policies} for {seconds}s ({effect}): {error}; it tries again, so make this reachable, or correct \
         `jwks` of the provider"
    )
}

/// The driver of its shards, which may differ.
fn driver(runtime: &Runtime) -> String {
    // The features of io_uring that are in use follow the name.
    let name = |text: &'_ str| text.split(' ').next().unwrap_or_default().to_owned();
    let mut drivers: Vec<String> = runtime.shards.iter().map(|it| name(&it.driver)).collect();
    drivers.sort_unstable();
    drivers.dedup();
    drivers.join(", ")
}
