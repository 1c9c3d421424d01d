//! What selecting a rule costs, at 10 to 100 000 rules: by host, by prefix, by exact path, falling
//! through all levels; and, where candidates are tried in turn, by header and by regular expression.
//!
//! Requests are for rules from all over the table: warm, for few enough that what they touch of it
//! stays in the cache, as traffic that has favourites; and cold, for so many that it does not.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use http::{HeaderMap, HeaderName, HeaderValue};
use proxy::route::{Entry, RegexCache, RequestView, Router};
use xds::model::{HeaderMatch, Hostname, HttpMatch, Order, PathMatch, Pattern, StringMatch};

const SIZES: [usize; 3] = [10, 1_000, 100_000];

/// How many requests there are in turn: what the first touch fits a second-level cache, and what the
/// last touch of 100 000 rules is larger than most shares of a third-level one.
const REQUESTS: [(&str, usize); 2] = [("warm", 256), ("cold", 32_768)];

struct Rule {
    hostnames: Vec<Hostname>,
    matches: HttpMatch,
    object: String,
}

impl Rule {
    fn new(number: usize, host: &str, path: PathMatch) -> Self {
        Self {
            hostnames: vec![Hostname::parse(host).expect("a host")],
            matches: HttpMatch {
                path,
                method: None,
                headers: Box::default(),
                query: Box::default(),
            },
            object: format!("team-{}/route-{number}", number % 100),
        }
    }

    /// Demands a header that only the n-th request of its kind has.
    fn with_header(mut self, value: &str) -> Self {
        let header = HeaderMatch {
            name: HeaderName::from_static("x-tenant"),
            value: StringMatch::Exact(value.into()),
        };
        self.matches.headers = [header].into();
        self
    }
}

struct Request {
    host: String,
    path: String,
    headers: Rc<HeaderMap>,
}

impl Request {
    fn new(host: String, path: String, headers: &Rc<HeaderMap>) -> Self {
        Self {
            host,
            path,
            headers: Rc::clone(headers),
        }
    }
}

/// The requests as the router sees them. Their bytes stand side by side in `bytes`, so that they are
/// in the cache when their turn comes, as those just read from a socket are.
fn views<'a>(requests: &'a [Request], bytes: &'a mut String) -> Vec<RequestView<'a, HeaderMap>> {
    for request in requests {
        bytes.push_str(&request.host);
        bytes.push_str(&request.path);
    }
    let mut rest = bytes.as_bytes();
    let mut next = |length| rest.split_off(..length).expect("all were put in");
    let view = |request: &'a Request| RequestView {
        host: next(request.host.len()),
        path: next(request.path.len()),
        query: None,
        method: b"GET",
        headers: &*request.headers,
    };
    requests.iter().map(view).collect()
}

/// A scenario: its n-th rule, and the request for it.
struct Scenario {
    name: &'static str,
    rule: fn(usize) -> Rule,
    request: fn(usize, &Rc<HeaderMap>) -> Request,
    sizes: &'static [usize],
}

const SCENARIOS: [Scenario; 6] = [
    Scenario {
        name: "hosts",
        rule: |n| Rule::new(n, &host(n), prefix("/")),
        request: |n, headers| Request::new(host(n), "/api/v1/items/42".to_owned(), headers),
        sizes: &SIZES,
    },
    Scenario {
        name: "prefixes",
        rule: |n| Rule::new(n, HOST, prefix(&path(n))),
        request: |n, headers| {
            Request::new(HOST.to_owned(), format!("{}/items/42", path(n)), headers)
        },
        sizes: &SIZES,
    },
    Scenario {
        name: "exact",
        rule: |n| Rule::new(n, HOST, PathMatch::exact(&path(n)).expect("a path")),
        request: |n, headers| Request::new(HOST.to_owned(), path(n), headers),
        sizes: &SIZES,
    },
    Scenario {
        // Nothing of the exact host matches: neither five prefixes there, nor one of the wildcard.
        name: "fall_through",
        rule: |n| match n % 8 {
            depth @ 1..=6 => {
                let path = "/a".repeat(depth - 1);
                Rule::new(n, &host(n / 8), prefix(&format!("{path}/"))).with_header("none")
            }
            7 => Rule::new(n, "*.example.com", prefix(&format!("/a/{n}"))),
            _ => Rule::new(n, "*.com", prefix(&format!("/a/a/a/b{n}"))),
        },
        request: |n, headers| {
            Request::new(host(n / 8), format!("/a/a/a/b{}/c", n / 8 * 8), headers)
        },
        sizes: &SIZES,
    },
    Scenario {
        name: "header_candidates",
        rule: |n| Rule::new(n, HOST, prefix("/api")).with_header(&format!("tenant-{n}")),
        request: |n, headers| {
            let mut headers = HeaderMap::clone(headers);
            let tenant = HeaderValue::from_str(&format!("tenant-{n}")).expect("a value");
            headers.insert("x-tenant", tenant);
            Request::new(HOST.to_owned(), "/api/v1".to_owned(), &Rc::new(headers))
        },
        sizes: &[10, 1_000],
    },
    Scenario {
        name: "regexes",
        rule: |n| {
            let pattern = Pattern::parse(&format!("/service-{n}/v[0-9]+/.*"));
            Rule::new(n, HOST, PathMatch::Regex(pattern.expect("a pattern")))
        },
        request: |n, headers| {
            Request::new(
                HOST.to_owned(),
                format!("/service-{n}/v2/items/42"),
                headers,
            )
        },
        sizes: &[10, 1_000],
    },
];

const HOST: &str = "shop.example.com";

const HEADERS: [(&str, &str); 6] = [
    ("host", HOST),
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"),
    ("accept", "text/html,application/xhtml+xml"),
    ("accept-encoding", "gzip, deflate, br"),
    ("cookie", "session=0123456789abcdef"),
    ("x-request-id", "2f1c3a52-7d7e-4f0c-9b1d-0a1b2c3d4e5f"),
];

fn host(n: usize) -> String {
    format!("shop-{n}.example.com")
}

fn path(n: usize) -> String {
    format!("/team-{}/service-{n}", n % 100)
}

fn prefix(path: &str) -> PathMatch {
    PathMatch::prefix(path).expect("a path")
}

fn compile(rules: &[Rule]) -> Router {
    Router::compile((0..).zip(rules).map(|(route, rule)| Entry {
        hostnames: &rule.hostnames,
        matches: &rule.matches,
        order: Order {
            created: 0,
            object: &rule.object,
            rule: 0,
        },
        match_index: 0,
        route,
    }))
}

/// So many requests spread over all rules, in an order that no prefetcher follows.
fn requests(scenario: &Scenario, size: usize, count: usize) -> Vec<Request> {
    let headers = HEADERS.map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    let headers = Rc::new(HeaderMap::from_iter(headers));
    (0..count)
        .map(|n| (scenario.request)(n * 48_271 % size, &headers))
        .collect()
}

fn select(criterion: &mut Criterion) {
    for scenario in &SCENARIOS {
        let mut group = criterion.benchmark_group(scenario.name);
        for &size in scenario.sizes {
            let rules: Vec<Rule> = (0..size).map(scenario.rule).collect();
            let router = compile(&rules);
            for (heat, count) in REQUESTS {
                let (requests, mut bytes) = (requests(scenario, size, count), String::new());
                let requests = views(&requests, &mut bytes);
                let mut cache = RegexCache::new();
                let mut next = requests.iter().cycle();
                for request in &requests {
                    assert!(matches!(router.select(request, &mut cache), Ok(Some(_))));
                }
                group.bench_function(BenchmarkId::new(heat, size), |bencher| {
                    bencher.iter(|| {
                        let request = next.next().expect("requests go round");
                        router.select(black_box(request), &mut cache)
                    });
                });
            }
        }
    }
}

fn compile_all(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compile");
    group.sample_size(10);
    for (name, scenario) in [("hosts", &SCENARIOS[0]), ("prefixes", &SCENARIOS[1])] {
        for size in [5_000, 100_000] {
            let rules: Vec<Rule> = (0..size).map(scenario.rule).collect();
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                bencher.iter_with_large_drop(|| compile(black_box(&rules)));
            });
        }
    }
}

criterion_group! {
    name = router;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = select, compile_all
}
criterion_main!(router);
