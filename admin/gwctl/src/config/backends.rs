//! `gwctl config backends`: backends and services, and the health of their endpoints.

use admin_types::dump::{Endpoint, EndpointCheck, EndpointCheckState, EndpointHealth};
use serde::Serialize;

use super::key::Key;
use super::scope::{Scope, targets};
use crate::table::Table;

/// An endpoint of a backend or service.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    namespace: String,
    /// None where the backend has no endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<Endpoint>,
}

/// The endpoints of the backends that routes reference; with `all`, of every backend.
pub(super) fn rows(scope: &Scope, all: bool) -> Vec<Row> {
    let dump = &scope.dump;
    let referenced = targets(&dump.routes);
    let backends = dump.backends.iter().map(|it| (&it.key, &it.endpoints));
    let services = dump.services.iter().map(|it| (&it.key, &it.endpoints));
    let mut rows = Vec::new();
    for (key, endpoints) in backends.chain(services) {
        if !all && !referenced.contains(key) {
            continue;
        }
        let key = Key::parse(key);
        let row = |endpoint: Option<&Endpoint>| Row {
            kind: key.kind.to_owned(),
            name: key.name.to_owned(),
            namespace: key.namespace.to_owned(),
            endpoint: endpoint.cloned(),
        };
        if endpoints.is_empty() {
            rows.push(row(None));
        }
        rows.extend(endpoints.iter().map(|endpoint| row(Some(endpoint))));
    }
    rows.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    rows
}

impl Row {
    fn sort_key(&self) -> (&str, &str, &str, &str) {
        let endpoint = self.endpoint.as_ref().map_or("", |endpoint| &endpoint.name);
        (&self.kind, &self.namespace, &self.name, endpoint)
    }
}

/// The rows as a table.
pub(super) fn table(rows: &[Row]) -> Table<7> {
    let mut table = Table::new(COLUMNS);
    for row in rows {
        let mut cells = row.cells();
        if let (Some(endpoint), Some(latency)) = (&row.endpoint, cells.last_mut()) {
            latency.push_str(&remark(endpoint));
        }
        table.row(cells);
    }
    table
}

/// The same with the state of each endpoint, where it is, and why it gets what it gets.
pub(super) fn wide(rows: &[Row]) -> Table<11> {
    let [kind, name, namespace, endpoint, health, requests, latency] = COLUMNS;
    let mut table = Table::new([
        kind,
        name,
        namespace,
        endpoint,
        health,
        requests,
        latency,
        "STATE",
        "ZONE",
        "PREFERRED",
        "REASON",
    ]);
    for row in rows {
        let [kind, name, namespace, endpoint, health, requests, latency] = row.cells();
        let shown = row.endpoint.as_ref();
        let [state, reason] = shown.map(state).unwrap_or_default();
        let preferred = shown.and_then(|it| it.preferred);
        let preferred = preferred.map(|it| if it { "yes" } else { "no" });
        let zone = shown.and_then(|it| it.zone.clone());
        table.row([
            kind,
            name,
            namespace,
            endpoint,
            health,
            requests,
            latency,
            state,
            zone.unwrap_or_default(),
            preferred.unwrap_or_default().to_owned(),
            reason,
        ]);
    }
    table
}

const COLUMNS: [&str; 7] = [
    "TYPE",
    "NAME",
    "NAMESPACE",
    "ENDPOINT",
    "HEALTH",
    "REQUESTS",
    "LATENCY",
];

impl Row {
    /// The columns of every table.
    fn cells(&self) -> [String; 7] {
        let [endpoint, health, requests, latency] = match &self.endpoint {
            Some(endpoint) => {
                // One that its health check keeps from requests is as bad as can be.
                let is_out = { endpoint.health_check.as_ref() }.is_some_and(|it| it.state.is_out());
                let health = if is_out { 0.0 } else { endpoint.live.health };
                [
                    endpoint.name.clone(),
                    format!("{health:.2}"),
                    endpoint.live.requests.to_string(),
                    format!("{:.2}ms", endpoint.live.latency_ms),
                ]
            }
            None => Default::default(),
        };
        let (kind, name) = (self.kind.clone(), self.name.clone());
        let namespace = self.namespace.clone();
        [kind, name, namespace, endpoint, health, requests, latency]
    }
}

/// The state of an endpoint, and why it is in that or preferred.
fn state(endpoint: &Endpoint) -> [String; 2] {
    let live = &endpoint.live;
    let check = endpoint.health_check.as_ref();
    let why = check.and_then(|check| check.reason.clone());
    let [state, reason] = match (endpoint.status, check.map(|it| it.state)) {
        (EndpointHealth::NotReady, _) => ["not ready".to_owned(), String::new()],
        (EndpointHealth::Draining, _) => ["draining".to_owned(), String::new()],
        (EndpointHealth::Ready, Some(EndpointCheckState::Waiting)) => {
            let why = why.unwrap_or_else(|| "no probe yet".to_owned());
            ["waiting".to_owned(), format!("health check: {why}")]
        }
        (EndpointHealth::Ready, Some(EndpointCheckState::Unhealthy)) => [
            "out".to_owned(),
            format!("health check: {}", why.unwrap_or_default()),
        ],
        (EndpointHealth::Ready, _) if live.ejected_for.is_some() => {
            let time = live.ejected_for.as_deref().unwrap_or_default();
            let (ejected, shards) = (live.ejected_shards, live.shards);
            let reason = format!("ejected for {time} on {ejected} of {shards} shards");
            ["ejected".to_owned(), reason]
        }
        (EndpointHealth::Ready, Some(EndpointCheckState::Ignored)) => {
            let why = why.unwrap_or_default();
            let reason = format!("health check is ignored, as most endpoints fail: {why}");
            ["in service".to_owned(), reason]
        }
        (EndpointHealth::Ready, _) => match endpoint.warming_percent {
            Some(percent) => [format!("warming {percent} %"), String::new()],
            None => ["in service".to_owned(), String::new()],
        },
    };
    let reasons = [Some(reason), endpoint.preference.clone()];
    let reasons = reasons.into_iter().flatten().filter(|it| !it.is_empty());
    let reasons: Vec<String> = reasons.collect();
    [state, reasons.join("; ")]
}

/// Appended to the last column where the endpoint gets no or fewer requests.
fn remark(endpoint: &Endpoint) -> String {
    let live = &endpoint.live;
    let status = match endpoint.status {
        EndpointHealth::Ready => "",
        EndpointHealth::Draining => "  draining",
        EndpointHealth::NotReady => "  not ready",
    };
    let ejected = live.ejected_for.as_ref().map(|time| {
        let (ejected, shards) = (live.ejected_shards, live.shards);
        format!("  ejected for {time} on {ejected} of {shards} shards")
    });
    let check = endpoint.health_check.as_ref().map(check_remark);
    [Some(status.to_owned()), ejected, check]
        .into_iter()
        .flatten()
        .collect()
}

/// What the health check of an endpoint says, if it does not succeed.
fn check_remark(check: &EndpointCheck) -> String {
    let reason = check.reason.as_deref().unwrap_or("no probe yet");
    match check.state {
        EndpointCheckState::Untried | EndpointCheckState::Healthy => String::new(),
        EndpointCheckState::Waiting => format!("  waits for its health check: {reason}"),
        EndpointCheckState::Unhealthy => format!("  health check fails: {reason}"),
        EndpointCheckState::Ignored => {
            format!("  health check is ignored, as most endpoints fail: {reason}")
        }
    }
}

#[cfg(test)]
mod tests {
    use admin_types::dump::Dump;

    use super::{Scope, rows, table};

    #[test]
    fn the_table_has_the_documented_columns() {
        let dump: Dump =
            serde_json::from_str(include_str!("../../tests/dump.json")).expect("a dump");
        let mut text = Vec::new();
        table(&rows(&Scope { dump }, false))
            .write(&mut text)
            .expect("memory");
        let expected = include_str!("../../tests/backends.txt");
        assert_eq!(String::from_utf8(text).expect("text"), expected);
    }
}
