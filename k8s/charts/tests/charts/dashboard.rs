//! The dashboard is readable: its panels have room, and titles and legends tell what is shown.

use std::collections::BTreeSet;

use charts::path;
use serde_json::Value;

use crate::metrics::grouped_labels;
use crate::read;

/// All panels, rows included.
fn panels() -> Vec<Value> {
    let dashboard = read(&path("gateway/dashboards/gateway.json"));
    let mut dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array_mut().expect("panels");
    std::mem::take(panels)
}

fn is_chart(panel: &Value) -> bool {
    panel["type"] == "timeseries"
}

fn title(panel: &Value) -> &str {
    panel["title"].as_str().expect("a title")
}

/// The expressions of a panel, each with the format of its legend.
fn targets(panel: &Value) -> impl Iterator<Item = (&str, &str)> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    targets.filter_map(|it| Some((it["expr"].as_str()?, it["legendFormat"].as_str()?)))
}

/// The labels that the format of a legend shows.
fn shown_labels(format: &str) -> BTreeSet<&str> {
    let starts = format.split("{{").skip(1);
    starts.filter_map(|it| it.split("}}").next()).collect()
}

/// The cells of the grid that a panel covers.
fn cells(panel: &Value) -> impl Iterator<Item = (u64, u64)> {
    let position = |name| panel["gridPos"][name].as_u64().expect("a number");
    let (left, top, width, height) = (position("x"), position("y"), position("w"), position("h"));
    (top..top + height).flat_map(move |y| (left..left + width).map(move |x| (x, y)))
}

#[test]
fn there_are_panels_for_everything() {
    let panels = panels();
    let rows = panels.iter().filter(|panel| panel["type"] == "row");
    let rows: Vec<_> = rows.map(title).collect();
    let wanted = [
        "Traffic",
        "Errors by reason",
        "Latency",
        "Endpoints",
        "TLS and JWT",
        "Configuration and xDS",
        "Shards",
        "Controller",
    ];
    assert_eq!(rows, wanted);
}

#[test]
fn panels_have_ids_and_titles_of_their_own() {
    let panels = panels();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].to_string()).collect();
    assert_eq!(ids.len(), panels.len(), "panels share an id");
    let mut titles = BTreeSet::new();
    for panel in panels.iter().filter(|panel| is_chart(panel)) {
        assert!(titles.insert(title(panel)), "two panels: {}", title(panel));
    }
}

#[test]
fn panels_fill_the_grid_with_room_for_their_legends() {
    let mut covered = BTreeSet::new();
    let panels = panels();
    for panel in &panels {
        for cell in cells(panel) {
            assert!(cell.0 < 24 && covered.insert(cell), "{}", title(panel));
        }
        let width = panel["gridPos"]["w"].as_u64();
        let is_wide = width >= Some(8);
        assert!(is_wide || !is_chart(panel), "{} is narrow", title(panel));
    }
    let bottom = covered.iter().map(|(_, y)| y + 1).max();
    let filled = bottom.unwrap_or_default() * 24;
    assert_eq!(covered.len() as u64, filled, "there are holes");
}

#[test]
fn legends_list_first_what_matters() {
    for panel in panels().iter().filter(|panel| is_chart(panel)) {
        let legend = &panel["options"]["legend"];
        let column = match legend["sortBy"].as_str() {
            Some("Max") => "max",
            Some("Min") => "min",
            Some("Last *") => "lastNotNull",
            other => panic!("{}: a legend by {other:?}", title(panel)),
        };
        let columns = legend["calcs"].as_array().expect("columns");
        assert!(columns.iter().any(|it| it == column), "{}", title(panel));
    }
}

#[test]
fn legends_tell_series_apart() {
    for panel in panels().iter().filter(|panel| is_chart(panel)) {
        let mut formats = BTreeSet::new();
        for (query, format) in targets(panel) {
            let mut grouped = grouped_labels(query);
            grouped.remove("le");
            assert_eq!(grouped, shown_labels(format), "{}", title(panel));
            assert!(formats.insert(format), "{}: {format}", title(panel));
        }
    }
}

/// A request that reached no route or no backend has an empty label, which Prometheus leaves out:
/// Grafana then names the series "Value".
#[test]
fn requests_without_a_route_or_backend_have_a_name() {
    for panel in panels().iter().filter(|panel| is_chart(panel)) {
        let of_requests = |it: &(&str, &str)| it.0.contains("gateway_requests_total");
        for (query, format) in targets(panel).filter(of_requests) {
            let shown = shown_labels(format);
            for label in shown.intersection(&BTreeSet::from(["route", "backend"])) {
                let named = format!(", \"{label}\", \"no {label}\", \"{label}\", \"\")");
                assert!(query.contains(&named), "{}: {query}", title(panel));
            }
        }
    }
}

/// There is no series of a status before the first request with it.
#[test]
fn no_errors_are_zero() {
    let panels = panels();
    let errors = panels.iter().find(|panel| panel["title"] == "Errors");
    let (query, _) = targets(errors.expect("a panel")).next().expect("a query");
    assert!(query.contains("or vector(0)"), "{query}");
}

/// Watches fail by kind and reason, too many series for a legend, and failures of TLS have no series before
/// the first: failures alone are drawn, and a line at zero while there are none. Without a controller there is
/// no line.
#[test]
fn panels_of_rare_failures_draw_zero_without_any() {
    let panels = panels();
    let query_of = |metric: &str| {
        let mut queries = panels.iter().flat_map(targets).map(|(query, _)| query);
        queries
            .find(|query| query.contains(metric))
            .expect("a query")
    };
    let watches = query_of("watch_errors_total");
    assert!(watches.contains(" > 0 or on () "), "{watches}");
    assert!(
        watches.contains(" * 0, ") && !watches.contains("vector"),
        "{watches}"
    );
    let handshakes = query_of("upstream_tls_failures_total");
    assert!(
        handshakes.contains(" > 0 or on () ") && handshakes.contains("vector(0)"),
        "{handshakes}"
    );
}

/// Not every kernel shows a cgroup, nor has every container a limit.
#[test]
fn memory_has_a_fallback_without_a_cgroup_or_limit() {
    let panels = panels();
    let memory = panels.iter().find(|panel| panel["title"] == "Memory");
    let queries = targets(memory.expect("a panel")).map(|(query, _)| query);
    let queries = queries.collect::<Vec<_>>().join("\n");
    for fallback in [
        "gateway_memory_resident_bytes",
        "gateway_memory_machine_bytes",
    ] {
        assert!(queries.contains(fallback), "{queries}");
    }
}
