//! Writes of an implementation to the API server, as counted by the API server.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use kube::Client;

/// Writes by resource: statuses of Gateway API objects, which the bench itself never writes, and events.
pub(crate) async fn count(client: &Client) -> Result<BTreeMap<String, f64>> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let text = client
        .request_text(request)
        .await
        .context("the API server's metrics cannot be read")?;
    Ok(parse(&text))
}

/// How many there are more than before.
pub(crate) fn since(
    now: &BTreeMap<String, f64>,
    before: &BTreeMap<String, f64>,
) -> BTreeMap<String, f64> {
    let more = |(name, count): (&String, &f64)| {
        let more = count - before.get(name).copied().unwrap_or(0.0);
        (more > 0.0).then(|| (name.clone(), more))
    };
    now.iter().filter_map(more).collect()
}

fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let Some((labels, value)) = line
            .strip_prefix("apiserver_request_total{")
            .and_then(|rest| rest.split_once("} "))
        else {
            continue;
        };
        let label = |name: &str| {
            let mut pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|(key, _)| *key == name);
            found.map_or("", |(_, value)| value.trim_matches('"'))
        };
        let is_write = ["POST", "PUT", "PATCH", "APPLY"].contains(&label("verb"));
        let is_status =
            label("group") == "gateway.networking.k8s.io" && label("subresource") == "status";
        let name = match label("resource") {
            "events" if is_write => "events".to_owned(),
            resource if is_write && is_status => format!("{resource}/status"),
            _ => continue,
        };
        *counts.entry(name).or_insert(0.0) += value.parse().unwrap_or(0.0);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_writes_are_counted_and_reads_are_not() {
        let line = |resource: &str, sub: &str, verb: &str, count: u32| {
            format!(
                "apiserver_request_total{{code=\"200\",group=\"gateway.networking.k8s.io\",\
                 resource=\"{resource}\",subresource=\"{sub}\",verb=\"{verb}\",version=\"v1\"}} {count}\n"
            )
        };
        let before = parse(&line("gateways", "status", "PATCH", 3));
        let now = [
            line("gateways", "status", "PATCH", 5),
            line("gateways", "status", "PUT", 1),
            line("gateways", "", "POST", 7),
            line("httproutes", "status", "GET", 9),
        ];
        let more = since(&parse(&now.concat()), &before);
        assert_eq!(more, BTreeMap::from([("gateways/status".to_owned(), 3.0)]));
    }
}
