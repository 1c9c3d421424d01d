//! Every metric and label in the dashboard and the alerts is one that the programs have.
//!
//! They are looked up in the sources where the programs write them: a query of a metric that was
//! renamed is valid, and stays empty.

mod written;

use std::collections::BTreeSet;

use charts::path;
use serde_json::Value;

use self::written::SourceMetrics;
use crate::read;

/// Labels added by Prometheus and its operator.
const TARGET_LABELS: [&str; 3] = ["namespace", "pod", "le"];

/// All queries, with their places.
fn queries() -> Vec<(String, String)> {
    let dashboard = read(&path("gateway/dashboards/gateway.json"));
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let alerts = read(&path("gateway/dashboards/alerts.yaml"));
    let alerts: Value = serde_saphyr::from_str(&alerts).expect("YAML");
    let mut found = Vec::new();
    for document in [&dashboard, &alerts] {
        collect(document, "", &mut found);
    }
    found
}

fn collect(value: &Value, place: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            let title = members.get("title").or_else(|| members.get("alert"));
            let place = title.and_then(Value::as_str).unwrap_or(place);
            if let Some(query) = members.get("expr").and_then(Value::as_str) {
                found.push((place.to_owned(), query.to_owned()));
            }
            for member in members.values() {
                collect(member, place, found);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|it| collect(it, place, found)),
        _ => {}
    }
}

/// The words of a query outside of strings, each with the text after it.
fn words(query: &str) -> Vec<(&str, &str)> {
    let mut words = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(|it: char| it == '"' || it == '_' || it.is_alphabetic()) {
        rest = &rest[start..];
        if let Some(string) = rest.strip_prefix('"') {
            rest = string.split_once('"').map_or("", |(_, after)| after);
            continue;
        }
        let is_word = |it: char| it == '_' || it.is_alphanumeric();
        let end = rest.find(|it| !is_word(it)).unwrap_or(rest.len());
        words.push((&rest[..end], rest[end..].trim_start()));
        rest = &rest[end..];
    }
    words
}

/// The labels that a query selects or groups by.
fn labels(query: &str) -> BTreeSet<&str> {
    let compared = |after: &str| {
        after.starts_with("=~") || after.starts_with("!=") || {
            after.starts_with('=') && !after.starts_with("==")
        }
    };
    let words = words(query).into_iter();
    let mut labels: BTreeSet<_> = words
        .filter(|(_, after)| compared(after))
        .map(|it| it.0)
        .collect();
    labels.extend(grouped_labels(query));
    labels
}

/// The labels that a query groups by.
pub(crate) fn grouped_labels(query: &str) -> BTreeSet<&str> {
    let lists = query.split("by (").skip(1);
    let lists = lists.filter_map(|grouped| grouped.split(')').next());
    lists
        .flat_map(|list| list.split(',').map(str::trim))
        .collect()
}

#[test]
fn queries_use_existing_metrics_and_labels() {
    let written = SourceMetrics::by_all();
    let mut wrong = Vec::new();
    let mut used = 0;
    for (place, query) in queries() {
        let metrics = words(&query).into_iter().map(|(word, _)| word);
        for metric in metrics.filter(|word| word.starts_with("gateway_")) {
            used += 1;
            if !written.has(metric) {
                wrong.push(format!("{place}: there is no metric {metric}"));
            }
        }
        for label in labels(&query) {
            if !written.labels.contains(label) && !TARGET_LABELS.contains(&label) {
                wrong.push(format!("{place}: no metric has a label {label}"));
            }
        }
    }
    assert!(used > 50, "there are no queries");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn metrics_and_labels_are_found_in_queries() {
    let query =
        r#"sum by (route, le) (rate(gateway_a_bucket{status=~"5..",pod="gateway_b"}[5m])) == 1"#;
    let found: Vec<_> = words(query).into_iter().map(|(word, _)| word).collect();
    assert!(
        found.contains(&"gateway_a_bucket") && !found.contains(&"gateway_b"),
        "{found:?}"
    );
    assert_eq!(
        labels(query),
        BTreeSet::from(["le", "pod", "route", "status"])
    );
    let mut written = SourceMetrics::default();
    written.read_proxy("rules.histogram(out, \"a\", help); out.gauge(\n  \"b\")");
    assert!(written.has("gateway_a_bucket"));
    assert!(!written.has("gateway_a") && !written.has("gateway_a_total"));
    assert!(written.has("gateway_b") && !written.has("gateway_b_total"));
    written.read_proxy("durations(out, \"c\", help, took);");
    assert!(written.has("gateway_c_bucket"));
}

#[test]
fn metrics_of_the_controller_are_found_with_their_kinds() {
    let mut written = SourceMetrics::default();
    written.read_controller(
        r#"
        type ByKind = [(&'static str, &'static str); 1];
        type ByType = Family<ByKind, Gauge>;
        struct Measures { events: Family<ByKind, Counter>, lag: Histogram, objects: ByType }
        let registry = registry.sub_registry_with_prefix("watch");
        registry.register("events", help, own.events.clone());
        registry.register(
            "lag_seconds", help, own.lag.clone());
        registry.register("objects", help, own.objects.clone());
        self.events.get_or_create(&[("kind", kind)]).inc();
        "#,
    );
    assert!(written.has("gateway_controller_watch_events_total"));
    assert!(!written.has("gateway_controller_watch_events"));
    assert!(written.has("gateway_controller_watch_lag_seconds_bucket"));
    assert!(written.has("gateway_controller_watch_objects"));
    assert!(!written.has("gateway_controller_watch_objects_total"));
    assert!(written.labels.contains("kind"));
}

#[test]
fn alerts_describe_the_problem_and_the_remedy() {
    let alerts = read(&path("gateway/dashboards/alerts.yaml"));
    let alerts: Value = serde_saphyr::from_str(&alerts).expect("YAML");
    for rule in alerts["groups"][0]["rules"].as_array().expect("rules") {
        for text in [
            "/alert",
            "/expr",
            "/labels/severity",
            "/annotations/summary",
            "/annotations/description",
        ] {
            let found = rule.pointer(text).and_then(Value::as_str);
            assert!(found.is_some_and(|it| !it.is_empty()), "{text} of {rule}");
        }
    }
}
