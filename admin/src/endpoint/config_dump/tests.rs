//! The response is a contract: golden files have it for a configuration in which every field of the
//! model has a value other than its default.

mod sample;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use admin_types::dump::{
    BindDown, Endpoint, EndpointHealth, EndpointStats, Runtime, Shard, Source,
};
use tracing_subscriber::{EnvFilter, Registry, reload};

use super::{ENDPOINT, Filter, Writer};
use crate::handles::{ConfigView, Handles};
use crate::log::LogControl;
use crate::query::Query;
use crate::shard::UpstreamId;
use crate::upstreams::UpstreamStats;

/// Set to write the golden files anew.
const WRITE: &str = "WRITE_GOLDEN";

fn handles() -> Handles {
    let (_layer, handle) = reload::Layer::<_, Registry>::new(EnvFilter::new("info"));
    let shard = Shard {
        id: 0,
        driver: "epoll".to_owned(),
        reason: Some("io_uring is disabled".to_owned()),
        core: Some(1),
        heartbeat_ms: 2,
        connections: 3,
        stuck: false,
    };
    let down = BindDown {
        bind: "tcp/80/infra/web".to_owned(),
        address: "10.0.0.1:80".to_owned(),
        reason: "the port is in use".to_owned(),
        listeners: vec!["Gateway infra/web, listener `http`".to_owned()],
    };
    Handles {
        runtime: Box::new(move || Runtime {
            shards: vec![shard.clone()],
            binds_down: vec![down.clone()],
            ..Runtime::default()
        }),
        source: Box::new(|| Source {
            from: vec!["config.yaml".to_owned()],
            age_seconds: Some(4),
            ..Source::default()
        }),
        ..Handles::of_process(LogControl::new(handle, "info".to_owned()))
    }
}

/// An endpoint of each service and backend.
fn endpoint(key: &str) -> Vec<(UpstreamId, Endpoint)> {
    let id = UpstreamId {
        index: 0,
        generation: 1,
    };
    let endpoint = Endpoint {
        name: "10.0.0.9:8080".to_owned(),
        port: key.starts_with("Service/").then_some(80),
        weight: 5,
        status: EndpointHealth::Draining,
        zone: Some("zone-a".to_owned()),
        preferred: Some(true),
        preference: Some("zone hints: 70 % of the requests".to_owned()),
        warming_percent: Some(40),
        health_check: None,
        live: EndpointStats::default(),
    };
    vec![(id, endpoint)]
}

/// The response to `/config_dump` with this query.
fn response(query: &str) -> String {
    let view = ConfigView {
        number: 7,
        model: Arc::new(sample::model()),
        endpoints: Box::new(endpoint),
    };
    let query = Query::parse(Some(query), ENDPOINT.parameters).expect("a query");
    let mut out = Vec::new();
    let mut writer = Writer {
        out: &mut out,
        filter: Filter::parse(&query).expect("a filter"),
        live: UpstreamStats::default(),
    };
    writer.all(&handles(), &view).expect("memory");
    let text = String::from_utf8(out).expect("text");
    // So that a release changes no golden file.
    let version = |number: &str| format!("\"gateway\":\"{number}\"");
    text.replace(&version(env!("CARGO_PKG_VERSION")), &version("0.0.0"))
}

#[test]
fn the_response_is_that_of_the_golden_files() {
    for (file, query) in [
        ("whole.json", ""),
        ("named.json", "name=shop/cart"),
        ("policies.json", "type=policies"),
        ("certificates.json", "type=certificates"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src/endpoint/config_dump/golden")
            .join(file);
        let response = response(query);
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, &response).expect("a writable tree");
        }
        let golden = fs::read_to_string(&path).expect("a golden file");
        for (line, golden) in response.lines().zip(golden.lines()) {
            assert_eq!(line, golden, "{file}: {WRITE}=1 writes it anew");
        }
        assert_eq!(response, golden, "{file}");
    }
}

#[test]
fn the_response_has_no_secret() {
    let response = response("");
    assert!(!response.contains("hush"), "{response}");
    let key = format!("{:?}", b"hush-key");
    assert!(
        !response.contains(key.trim_matches(['[', ']'])),
        "{response}"
    );
}

#[test]
fn names_match_whole_segments_of_keys() {
    let key = "HTTPRoute/shop/cart/0/Gateway/infra/web/http";
    for (name, selected) in [
        ("cart", true),
        ("shop/cart", true),
        ("HTTPRoute/shop/cart", true),
        (key, true),
        ("car", false),
        ("op/cart", false),
        ("shop/web", false),
    ] {
        let filter = Filter {
            list: None,
            name: Some(format!("/{name}/")),
        };
        assert_eq!(filter.includes(key), selected, "{name}");
    }
}
