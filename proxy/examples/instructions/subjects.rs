//! What is counted: parsing, routing, rewriting and encoding of what browsers and origins send, and
//! changes of the configuration.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, UNIX_EPOCH};

use http::HeaderMap;
use proxy::http::h1::body::BodyDecoder;
use proxy::http::h1::encode::{DownstreamResponse, Expectation, Persist, UpstreamRequest};
use proxy::http::h1::{HeadLimits, HeadScan, RequestKind, parse_request, parse_response};
use proxy::http::head::{Framing, RequestHead, ResponseHead, Version};
use proxy::limits::Limits;
use proxy::observe::access_log::RequestEntry;
use proxy::policy::forwarded::HeaderTrust;
use proxy::policy::normalise::normalise_target;
use proxy::policy::path_edit::RequestPath;
use proxy::policy::path_rewrite::{self, PathRewrite, ResultLimits, RewriteScratch};
use proxy::policy::rate_limit::Moment;
use proxy::policy::request_id::RequestId;
use proxy::policy::rewrite::Rewrite;
use proxy::route::{Entry, RegexCache, RequestView, Router};
use xds::model::{
    self, EscapedSlash, Hostname, HttpMatch, LogFormat, Order, PathEdit, PathMatch, PathOptions,
    PathRewriteRule, Substitution,
};

use crate::configuration::{compile_changes, translate_changes};
use crate::http2::{make_grpc_calls, make_http_2_requests};
use crate::rate_limits;

/// Something that is called over and over.
pub(crate) struct Subject {
    /// Its name, of the function that it is about.
    pub(crate) name: &'static str,
    /// Calls in a batch.
    pub(crate) calls: u64,
    run: fn(u64),
}

impl Subject {
    /// Runs so many batches of calls.
    pub(crate) fn run_batches(&self, batches: u64) {
        (self.run)(batches * self.calls);
    }
}

pub(crate) const SUBJECTS: &[Subject] = &[
    Subject {
        name: "parse_request",
        calls: CALLS,
        run: |times| parse_requests(times, REQUEST),
    },
    Subject {
        name: "parse_request_of_a_browser",
        calls: CALLS,
        run: |times| parse_requests(times, BROWSER),
    },
    Subject {
        name: "parse_response",
        calls: CALLS,
        run: parse_responses,
    },
    Subject {
        name: "decode_chunked",
        calls: CALLS,
        run: decode_chunked,
    },
    Subject {
        name: "normalise_target",
        calls: CALLS,
        run: |times| normalise(times, b"/api/v1/items/42?q=1"),
    },
    Subject {
        name: "normalise_target_escaped",
        calls: CALLS,
        run: |times| normalise(times, b"/%61pi/./v1/../x"),
    },
    Subject {
        name: "select_of_1_rule",
        calls: CALLS,
        run: |times| select(times, 1, by_host),
    },
    Subject {
        name: "select_of_5000_hosts",
        calls: CALLS,
        run: |times| select(times, 5_000, by_host),
    },
    Subject {
        name: "select_of_1_prefix",
        calls: CALLS,
        run: |times| select(times, 1, by_prefix),
    },
    Subject {
        name: "select_of_5000_prefixes",
        calls: CALLS,
        run: |times| select(times, 5_000, by_prefix),
    },
    Subject {
        name: "rewrite_target",
        calls: CALLS,
        run: rewrite,
    },
    Subject {
        name: "rewrite_path_by_expression",
        calls: CALLS,
        run: |times| rewrite_path(times, r"^/api/v1/(\w+)/(.*)$", r"/\1/v2/\2"),
    },
    Subject {
        name: "rewrite_path_without_groups",
        calls: CALLS,
        run: |times| rewrite_path(times, "^/api/v1/", "/v2/"),
    },
    Subject {
        name: "rewrite_path_without_match",
        calls: CALLS,
        run: |times| rewrite_path(times, "^/other/(.*)$", r"/\1"),
    },
    Subject {
        name: "request_id",
        calls: CALLS,
        run: request_ids,
    },
    Subject {
        name: "rate_limit_by_address",
        calls: CALLS,
        run: |times| rate_limits::count(times, Moment::Early, 1),
    },
    Subject {
        name: "rate_limit_of_three_rules",
        calls: CALLS,
        run: |times| rate_limits::count(times, Moment::Early, 3),
    },
    Subject {
        name: "rate_limit_with_a_claim",
        calls: CALLS,
        run: |times| rate_limits::count(times, Moment::Late, 1),
    },
    Subject {
        name: "access_log_line",
        calls: CALLS,
        run: write_access_log_lines,
    },
    Subject {
        name: "encode_request",
        calls: CALLS,
        run: encode_requests,
    },
    Subject {
        name: "encode_response",
        calls: CALLS,
        run: encode_responses,
    },
    Subject {
        name: "http_2_request",
        calls: CALLS,
        run: make_http_2_requests,
    },
    Subject {
        name: "http_2_grpc_call",
        calls: CALLS,
        run: make_grpc_calls,
    },
    Subject {
        name: "translate_1_of_500_routes",
        calls: CHANGES,
        run: |times| translate_changes(times, 500),
    },
    Subject {
        name: "translate_1_of_5000_routes",
        calls: CHANGES,
        run: |times| translate_changes(times, 5_000),
    },
    Subject {
        name: "compile_1_of_500_routes",
        calls: CHANGES,
        run: |times| compile_changes(times, 500),
    },
    Subject {
        name: "compile_1_of_5000_routes",
        calls: CHANGES,
        run: |times| compile_changes(times, 5_000),
    },
];

/// Calls in a batch: enough that what is done once does not show.
const CALLS: u64 = 1_000;
/// Enough that the preparation, which varies by millions of instructions with the keys of hash tables, does
/// not show either.
const CHANGES: u64 = 200;

const REQUEST: &[u8] = b"GET /api/v1/items/42 HTTP/1.1\r\nHost: shop.example.com\r\n\r\n";

const BROWSER: &[u8] = b"GET /api/v1/items/42?color=red&size=xl HTTP/1.1\r\n\
    Host: shop.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Referer: https://shop.example.com/api/v1/items\r\n\
    Connection: keep-alive\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=all\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Priority: u=0, i\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Server: nginx/1.22.1\r\n\
    Date: Fri, 20 Nov 2026 12:00:00 GMT\r\n\
    Content-Type: application/json\r\n\
    Content-Length: 128\r\n\
    Connection: keep-alive\r\n\
    ETag: \"5f3759df-80\"\r\n\
    Cache-Control: max-age=60\r\n\r\n";

pub(crate) fn head_limits() -> HeadLimits {
    let limits = Limits::default();
    let size = |bytes: u32| usize::try_from(bytes).expect("32 bits fit");
    HeadLimits {
        line_bytes: size(limits.request_line_bytes),
        head_bytes: size(limits.head_bytes),
        fields: size(limits.header_fields),
    }
}

/// A copy on the heap, which is aligned as a connection's buffer is. How a literal is aligned depends on
/// the lengths of others, such as the path of the build, and so do the instructions of reading it:
/// [`std::str::from_utf8`] checks single bytes until it reaches an aligned address.
fn in_buffer(bytes: &[u8]) -> Vec<u8> {
    bytes.to_vec()
}

fn parse_requests(times: u64, bytes: &[u8]) {
    let (limits, mut head, bytes) = (head_limits(), RequestHead::default(), in_buffer(bytes));
    for _ in 0..times {
        let mut scan = HeadScan::default();
        let parsed = parse_request(black_box(&bytes), &limits, &mut scan, &mut head);
        black_box(parsed).expect("a request");
    }
}

fn parse_responses(times: u64) {
    let (limits, mut head) = (head_limits(), ResponseHead::default());
    let bytes = in_buffer(RESPONSE);
    for _ in 0..times {
        let mut scan = HeadScan::default();
        let bytes = black_box(&bytes);
        let parsed = parse_response(bytes, RequestKind::Other, &limits, &mut scan, &mut head);
        black_box(parsed).expect("a response");
    }
}

/// Four chunks of 1 KiB and their end.
fn decode_chunked(times: u64) {
    let chunk = format!("400\r\n{}\r\n", "x".repeat(0x400));
    let body = format!("{}0\r\n\r\n", chunk.repeat(4)).into_bytes();
    let (mut decoder, mut buffer) = (BodyDecoder::default(), body.clone());
    for _ in 0..times {
        buffer.copy_from_slice(&body);
        decoder.reset(Framing::Chunked);
        let decoded = decoder.decode(black_box(&mut buffer)).expect("a body");
        assert!(black_box(decoded).done);
    }
}

fn normalise(times: u64, target: &[u8]) {
    let (mut scratch, target) = (Vec::with_capacity(64), in_buffer(target));
    let options = PathOptions {
        merge_slashes: false,
        escaped_slash: EscapedSlash::Keep,
    };
    for _ in 0..times {
        scratch.clear();
        let normal = normalise_target(black_box(&target), options, &mut scratch);
        black_box(normal).expect("a target");
    }
}

/// A rule's host and the prefix of its paths.
type Rule = fn(usize) -> (String, String);

fn by_host(number: usize) -> (String, String) {
    (format!("shop-{number}.example.com"), "/".to_owned())
}

fn by_prefix(number: usize) -> (String, String) {
    (
        "shop.example.com".to_owned(),
        format!("/team-{}/service-{number}", number % 100),
    )
}

/// Selects the last of so many rules.
fn select(times: u64, rules: usize, rule: Rule) {
    let compiled: Vec<_> = (0..rules)
        .map(|number| {
            let (host, path) = rule(number);
            let hosts = vec![Hostname::parse(&host).expect("a host")];
            let matches = HttpMatch {
                path: PathMatch::prefix(&path).expect("a path"),
                method: None,
                headers: Box::default(),
                query: Box::default(),
            };
            (hosts, matches, format!("shop/{number}"))
        })
        .collect();
    let router = Router::compile(compiled.iter().zip(0..).map(
        |((hostnames, matches, object), route)| Entry {
            hostnames,
            matches,
            order: Order {
                created: 0,
                object,
                rule: 0,
            },
            match_index: 0,
            route,
        },
    ));
    let (host, prefix) = rule(rules - 1);
    let path = format!("{}/items/42", prefix.trim_end_matches('/'));
    let (mut cache, headers) = (RegexCache::new(), HeaderMap::new());
    for _ in 0..times {
        let request = RequestView {
            host: black_box(host.as_bytes()),
            path: path.as_bytes(),
            query: None,
            method: b"GET",
            headers: &headers,
        };
        let selected = black_box(router.select(&request, &mut cache));
        selected.expect("little work").expect("a rule");
    }
}

fn rewrite(times: u64) {
    let path = PathEdit::prefix_match("/v2/shop").expect("a path");
    let model = model::Rewrite {
        hostname: None,
        path: Some(path),
    };
    let rewrite = Rewrite::compose(&[Some(&model)]).expect("a rewrite");
    let (mut out, target) = (Vec::with_capacity(64), in_buffer(b"/api/v1/items/42?q=1"));
    for _ in 0..times {
        out.clear();
        let request = RequestPath::new(black_box(&target), "/api/v1".len());
        rewrite.write_target(request, &mut out);
        black_box(&out);
    }
}

fn rewrite_path(times: u64, pattern: &str, substitution: &str) {
    let substitution = Substitution::parse(substitution).expect("a substitution");
    let rule = PathRewriteRule::parse(pattern, substitution).expect("a pattern");
    let rewrite = model::PathRewrite::Rule(rule);
    let rewrite = PathRewrite::compile(&rewrite);
    let options = PathOptions {
        merge_slashes: false,
        escaped_slash: EscapedSlash::Keep,
    };
    let limits = ResultLimits {
        options,
        bytes: 8_192,
    };
    let received = in_buffer(b"/api/v1/items/42?q=1");
    let mut normal = Vec::new();
    let target = normalise_target(&received, options, &mut normal).expect("a target");
    let (mut scratch, mut out) = (RewriteScratch::default(), Vec::with_capacity(64));
    for _ in 0..times {
        out.clear();
        let result = path_rewrite::rewrite(
            black_box(&rewrite),
            black_box(target),
            limits,
            &mut scratch,
            &mut out,
        );
        black_box(result.is_ok());
        black_box(&out);
    }
}

fn request_ids(times: u64) {
    let mut out = Vec::with_capacity(64);
    for number in 0..times {
        out.clear();
        RequestId::new(black_box([number, number])).write_line(None, &mut out);
        black_box(&out);
    }
}

fn encode_requests(times: u64) {
    let head = browsers_head();
    let mut out = Vec::with_capacity(1024);
    for _ in 0..times {
        out.clear();
        outgoing(black_box(&head)).encode(&mut out, |known, name| {
            HeaderTrust::Untrusted.drops(known, name)
        });
        black_box(&out);
    }
}

pub(crate) fn browsers_head() -> RequestHead {
    let mut head = RequestHead::default();
    let mut scan = HeadScan::default();
    parse_request(BROWSER, &head_limits(), &mut scan, &mut head).expect("a request");
    head
}

/// A browser's request as a backend gets it.
pub(crate) fn outgoing(head: &RequestHead) -> UpstreamRequest<'_> {
    UpstreamRequest {
        head,
        framing: head.framing,
        bytes: BROWSER,
        target: b"/api/v1/items/42?color=red&size=xl",
        host: b"shop.example.com",
        expectation: Expectation::Ours,
        append: b"x-forwarded-for: 192.0.2.1\r\nx-forwarded-proto: http\r\n",
    }
}

/// Lines of one second, as at thousands of requests per second.
fn write_access_log_lines(times: u64) {
    let entry = RequestEntry {
        time: UNIX_EPOCH + Duration::from_millis(1_795_000_000_123),
        gateway: "default/edge",
        listener: Some("Gateway/default/edge/http"),
        route: Some("HTTPRoute/default/shop/0"),
        backend: Some("Service/default/shop:8080"),
        endpoint: Some("10.244.1.17:8080"),
        client: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 201))),
        method: b"GET",
        host: b"shop.example.com",
        path: b"/api/v1/items/42?q=1",
        protocol: "HTTP/1.1",
        status: 200,
        grpc_status: None,
        bytes_in: 0,
        bytes_out: 1_234,
        duration: Duration::from_micros(1_234),
        upstream: Some(Duration::from_micros(987)),
        reason: None,
        retries: 0,
        user_agent: Some(b"Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"),
        request_id: Some(b"6f1c8f2e-6d0a-4b57-9d57-1f2b3c4d5e6f"),
        client_certificate: None,
        jwt_subject: None,
        user: None,
    };
    let mut out = Vec::new();
    for _ in 0..times {
        out.clear();
        black_box(&entry).write(LogFormat::Text, &mut out);
        black_box(&out);
    }
}

fn encode_responses(times: u64) {
    let mut head = ResponseHead::default();
    let mut scan = HeadScan::default();
    parse_response(
        RESPONSE,
        RequestKind::Other,
        &head_limits(),
        &mut scan,
        &mut head,
    )
    .expect("a response");
    let mut out = Vec::with_capacity(1024);
    for _ in 0..times {
        out.clear();
        DownstreamResponse {
            head: black_box(&head),
            bytes: RESPONSE,
            client: Version::Http11,
            persist: Persist::Keep,
            append: b"",
        }
        .encode(&mut out, |_, _| false);
        black_box(&out);
    }
}
