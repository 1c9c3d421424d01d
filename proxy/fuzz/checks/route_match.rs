//! Routing: the router selects as a naive reading of Gateway API does, which is to sort every match
//! by precedence and to take the first that holds.
//!
//! Rules and requests are made from bytes, over alphabets so small that hosts, paths and ranks
//! collide. A property test of routing runs the same check.

use std::cmp::Reverse;

use http::{HeaderMap, HeaderValue};
use proxy::route::{Outcome, RegexCache, Router, Selected};
use xds::model::{Hostname, HttpMatch, MatchWork, PathMatch, StringMatch};

#[path = "../../tests/route/rules.rs"]
#[allow(dead_code, reason = "the tests of routing use the rest of it")]
pub(crate) mod rules;

use rules::{Request, Rule, compile};

/// Makes rules and requests from bytes and holds the router against the naive reading.
///
/// # Panics
/// The two disagree.
pub(crate) fn check(data: &[u8]) {
    let mut bytes = Bytes(data);
    let rules: Vec<Rule> = (0..=bytes.pick(12)).map(|_| bytes.rule()).collect();
    let router = compile(&rules);
    let mut cache = RegexCache::new();
    for _ in 0..=bytes.pick(8) {
        let request = bytes.request(&rules);
        let expected = select_naively(&rules, &request);
        let selected = router.select(&request.view(), &mut cache);
        let selected = selected.expect("little work");
        assert_eq!(selected, expected, "{request:#?}\n{rules:#?}");
        check_explanation(&router, &rules, &request, selected);
    }
}

/// The explanation names every match once and agrees with the selection.
fn check_explanation(
    router: &Router,
    rules: &[Rule],
    request: &Request,
    selected: Option<Selected>,
) {
    let considered = router.explain(&request.view(), &mut RegexCache::new(), usize::MAX);
    let matches: usize = rules.iter().map(|rule| rule.matches.len()).sum();
    assert_eq!(considered.len(), matches, "{considered:#?}");
    let winner = considered
        .iter()
        .find(|considered| considered.outcome == Outcome::Selected)
        .map(|considered| (considered.route, considered.match_index));
    let expected = selected.map(|selected| (selected.route, selected.match_index));
    assert_eq!(winner, expected, "{considered:#?}");
    for considered in &considered {
        let rule = &rules[considered.route as usize];
        let matches = &rule.matches[usize::from(considered.match_index)];
        let lost = matches!(considered.outcome, Outcome::Lost(_));
        let holds = covers_host(rule, request) && holds(matches, request);
        assert_eq!(holds, !lost, "{considered:#?} {rule:#?} {request:#?}");
    }
}

fn select_naively(rules: &[Rule], request: &Request) -> Option<Selected> {
    let mut all = Vec::new();
    for (route, rule) in (0..).zip(rules) {
        for (match_index, matches) in (0..).zip(&rule.matches) {
            let hostnames = rule.hostnames.iter().map(Some);
            let any = rule.hostnames.is_empty().then_some(None);
            for hostname in hostnames.chain(any) {
                let rank = (
                    host_rank(hostname),
                    path_rank(&matches.path),
                    matches.method.is_none(),
                    Reverse(matches.headers.len()),
                    Reverse(matches.query.len()),
                    ((rule.created, &rule.object), match_index, route),
                );
                all.push((rank, hostname, matches));
            }
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let ((.., (_, match_index, route)), _, matches) =
        all.into_iter().find(|(_, host, matches)| {
            host.is_none_or(|host| host.matches(&request.host)) && holds(matches, request)
        })?;
    let prefix_len = match &matches.path {
        PathMatch::Prefix(prefix) => prefix.len(),
        _ => 0,
    };
    Some(Selected {
        route,
        match_index,
        prefix_len,
    })
}

fn host_rank(hostname: Option<&Hostname>) -> (u8, Reverse<usize>) {
    match hostname {
        Some(name) if name.wildcard_suffix().is_none() => (0, Reverse(0)),
        Some(name) => (1, Reverse(name.as_str().len())),
        None => (2, Reverse(0)),
    }
}

fn path_rank(path: &PathMatch) -> (u8, Reverse<usize>) {
    match path {
        PathMatch::Exact(_) => (0, Reverse(0)),
        PathMatch::Prefix(prefix) => (1, Reverse(prefix.len())),
        PathMatch::Regex(_) => (2, Reverse(0)),
    }
}

fn covers_host(rule: &Rule, request: &Request) -> bool {
    let mut names = rule.hostnames.iter();
    rule.hostnames.is_empty() || names.any(|name| name.matches(&request.host))
}

fn holds(matches: &HttpMatch, request: &Request) -> bool {
    let path = match &matches.path {
        PathMatch::Exact(path) => request.path == **path,
        PathMatch::Prefix(prefix) => request
            .path
            .strip_prefix(&**prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        PathMatch::Regex(_) => true,
    };
    let method = matches.method.as_ref();
    path && method.is_none_or(|method| method.as_str() == request.method)
        && matches.headers.iter().all(|header| {
            let lines: Vec<&str> = request
                .headers
                .get_all(&header.name)
                .iter()
                .map(|value| value.to_str().expect("a text"))
                .collect();
            !lines.is_empty() && value_holds(&header.value, &lines.join(","))
        })
        && matches.query.iter().all(|parameter| {
            first_parameter(
                request.query.as_deref().unwrap_or_default(),
                &parameter.name,
            )
            .is_some_and(|value| value_holds(&parameter.value, &value))
        })
        && match &matches.path {
            PathMatch::Regex(pattern) => is_match(pattern, &request.path),
            _ => true,
        }
}

fn value_holds(test: &StringMatch, value: &str) -> bool {
    match test {
        StringMatch::Exact(expected) => **expected == *value,
        StringMatch::Regex(pattern) => is_match(pattern, value),
    }
}

fn is_match(pattern: &xds::model::Pattern, text: &str) -> bool {
    let matcher = pattern.matcher();
    let work = &mut MatchWork::of(u64::MAX);
    let memory = matcher.memory(work);
    let is_match = memory.and_then(|mut it| matcher.is_match(text.as_bytes(), &mut it, work));
    is_match.expect("enough work")
}

fn first_parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|parameter| {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        (decode(key) == name).then(|| decode(value))
    })
}

/// Knows the escapes of [`PARAMETERS`] alone.
fn decode(text: &str) -> String {
    text.replace('+', " ")
        .replace("%20", " ")
        .replace("%71", "q")
        .replace("%31", "1")
}

/// Choices taken from bytes; the first one where they have run out.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    /// A number below `count`.
    fn pick(&mut self, count: usize) -> usize {
        let Some((byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*byte) % count
    }

    fn one_of<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[self.pick(choices.len())]
    }

    fn rule(&mut self) -> Rule {
        let object = self.one_of(&["a", "b"]);
        let mut rule = Rule::parse(object);
        rule.created = i64::from(self.pick(2) == 1);
        rule.matches.clear();
        for _ in 0..self.pick(3) {
            let host = Hostname::parse(self.one_of(&RULE_HOSTS)).expect("a host");
            rule.hostnames.push(host);
        }
        for _ in 0..=self.pick(2) {
            let words = self.matches();
            rule.add_match(&words);
        }
        rule
    }

    fn matches(&mut self) -> String {
        let path = self.path();
        let mut words = match self.pick(4) {
            0 | 1 => format!("prefix={path}"),
            2 => format!("exact={path}"),
            _ => format!("regex={}", self.one_of(&PATTERNS)),
        };
        let extras = [
            self.one_of(&["", "", "method=GET", "method=X"]),
            self.one_of(&["", "", "header=x-a:1", "header~x-a:1|2", "header~x-a:1,.*"]),
            self.one_of(&["", "", "header=x-b:1,2", "header=cookie:1"]),
            self.one_of(&["", "", "query=q:1", "query~q:1\\s?2?", "query=q:"]),
            self.one_of(&["", "", "query=r:1", "query~r:.+"]),
        ];
        for extra in extras {
            words.push(' ');
            words.push_str(extra);
        }
        words
    }

    fn path(&mut self) -> String {
        let mut path = String::new();
        for _ in 0..self.pick(5) {
            let segment = self.one_of(&["/a", "/b", "/aa", "/a-name-of-eight-bytes-and-more"]);
            // Deeper than the set of depths tells apart, now and then.
            let times = if self.pick(16) == 15 { 62 } else { 1 };
            path.push_str(&segment.repeat(times));
        }
        if path.is_empty() || self.pick(4) == 3 {
            path.push('/');
        }
        path
    }

    /// Mostly a path of its own, else one that leads to a rule or just past it.
    fn request_path(&mut self, rules: &[Rule]) -> String {
        match self.pick(16) {
            15 => "*".to_owned(),
            14 => format!("{}//", self.path()),
            8..=13 => match &rules[self.pick(rules.len())].matches[0].path {
                PathMatch::Exact(path) | PathMatch::Prefix(path) if !path.is_empty() => {
                    format!("{path}{}", self.one_of(&["", "/", "/a", "a"]))
                }
                _ => self.path(),
            },
            _ => self.path(),
        }
    }

    fn request(&mut self, rules: &[Rule]) -> Request {
        let mut headers = HeaderMap::new();
        for _ in 0..self.pick(4) {
            let name = self.one_of(&["x-a", "x-b", "cookie"]);
            let name: http::HeaderName = name.parse().expect("a header name");
            let value = HeaderValue::from_static(self.one_of(&["1", "2", "", "1,2"]));
            headers.append(name, value);
        }
        let parameters: Vec<&str> = (0..self.pick(4))
            .map(|_| self.one_of(&PARAMETERS))
            .collect();
        Request {
            method: self.one_of(&["GET", "X", "PUT"]).to_owned(),
            host: self.one_of(&REQUEST_HOSTS).to_owned(),
            path: self.request_path(rules),
            query: (!parameters.is_empty()).then(|| parameters.join("&")),
            headers,
        }
    }
}

const RULE_HOSTS: [&str; 8] = [
    "b",
    "a.b",
    "x.a.b",
    "*.b",
    "*.a.b",
    "*.x.a.b",
    "*.y",
    "z-name-of-eight-bytes.and-more",
];

const REQUEST_HOSTS: [&str; 12] = [
    "a.b",
    "b",
    "x.a.b",
    "y.a.b",
    "y.x.a.b",
    "q.y.x.a.b",
    ".b",
    "x..b",
    "",
    "x.",
    "xa.b",
    "z-name-of-eight-bytes.and-more",
];

const PATTERNS: [&str; 8] = [
    "/a.*", ".*", "/(a|b)/?", "/(a/)*b", "/[^/]+/a", "/a/b?", "/aa|/b/a", "(?i)/A/B",
];

const PARAMETERS: [&str; 9] = [
    "q=1", "q=2", "q", "r=1", "%71=1", "q=%31", "q=1+2", "q=1%202", "r=",
];
