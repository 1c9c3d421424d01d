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
    let mut table = Table::new([
        "TYPE",
        "NAME",
        "NAMESPACE",
        "ENDPOINT",
        "HEALTH",
        "REQUESTS",
        "LATENCY",
    ]);
    for row in rows {
        let [endpoint, health, requests, latency] = match &row.endpoint {
            Some(endpoint) => [
                endpoint.name.clone(),
                format!("{:.2}", endpoint.live.health),
                endpoint.live.requests.to_string(),
                format!("{:.2}ms{}", endpoint.live.latency_ms, remark(endpoint)),
            ],
            None => Default::default(),
        };
        let (kind, name) = (row.kind.clone(), row.name.clone());
        table.row([
            kind,
            name,
            row.namespace.clone(),
            endpoint,
            health,
            requests,
            latency,
        ]);
    }
    table
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
