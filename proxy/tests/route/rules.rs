//! Rules and requests as lines of text, for the cases of the router.
//!
//! `rule NAME host=H exact=/p prefix=/p regex=R method=M header=N:V header~N:R query=N:V query~N:R
//! created=SECONDS`: a rule with one match; `or NAME …` adds a match to it. The default path is
//! `/`, and the default time 0. `GET host/path?query name:value -> NAME` is a request and its rule.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proxy::route::{Entry, RequestView, Router, Selected};
use xds::model::{
    HeaderMatch, Hostname, HttpMatch, Order, PathMatch, Pattern, QueryMatch, StringMatch,
};

/// A rule as the router receives it.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) hostnames: Vec<Hostname>,
    pub(crate) matches: Vec<HttpMatch>,
    pub(crate) created: i64,
    /// `namespace/name` of its object.
    pub(crate) object: String,
}

impl Rule {
    /// Reads the words after `rule`.
    pub(crate) fn parse(words: &str) -> Self {
        let (name, rest) = words.split_once(' ').unwrap_or((words, ""));
        let mut rule = Self {
            hostnames: Vec::new(),
            matches: Vec::new(),
            created: 0,
            object: format!("default/{name}"),
        };
        rule.add_match(rest);
        rule
    }

    /// The name it was given.
    pub(crate) fn name(&self) -> &str {
        self.object.trim_start_matches("default/")
    }

    /// Adds one match to it.
    pub(crate) fn add_match(&mut self, words: &str) {
        let mut matches = HttpMatch {
            path: PathMatch::prefix("/").expect("a path"),
            method: None,
            headers: Box::default(),
            query: Box::default(),
        };
        let (mut headers, mut query) = (Vec::new(), Vec::new());
        for word in words.split_whitespace() {
            let at = word.find(['=', '~']).expect("a word with `=` or `~`");
            let (key, value) = (&word[..at], &word[at + 1..]);
            let is_regex = word.as_bytes()[at] == b'~';
            match key {
                "host" => self.hostnames.push(Hostname::parse(value).expect("a host")),
                "created" => self.created = value.parse().expect("seconds"),
                "exact" => matches.path = PathMatch::exact(value).expect("a path"),
                "prefix" => matches.path = PathMatch::prefix(value).expect("a path"),
                "regex" => matches.path = PathMatch::Regex(pattern(value)),
                "method" => {
                    let method = Method::from_bytes(value.as_bytes());
                    matches.method = Some(method.expect("a method"));
                }
                "header" => headers.push(header_match(value, is_regex)),
                "query" => query.push(query_match(value, is_regex)),
                _ => panic!("`{word}` is no part of a rule"),
            }
        }
        (matches.headers, matches.query) = (headers.into(), query.into());
        self.matches.push(matches);
    }
}

/// Compiles rules; the number of a rule is its place.
pub(crate) fn compile(rules: &[Rule]) -> Router {
    Router::compile((0..).zip(rules).flat_map(|(route, rule)| {
        (0..)
            .zip(&rule.matches)
            .map(move |(match_index, matches)| Entry {
                hostnames: &rule.hostnames,
                matches,
                order: Order {
                    created: rule.created,
                    object: &rule.object,
                    rule: 0,
                },
                match_index,
                route,
            })
    }))
}

/// A request that owns its parts.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
}

impl Request {
    /// Reads `GET host/path?query name:value name:value`.
    pub(crate) fn parse(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let method = words.next().expect("a method").to_owned();
        let target = words.next().expect("a target");
        let (host, path) = target.split_at(target.find('/').expect("a path"));
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (path, None),
        };
        let mut headers = HeaderMap::new();
        for word in words {
            let (name, value) = word.split_once(':').expect("a header");
            let name: HeaderName = name.parse().expect("a header name");
            headers.append(name, HeaderValue::from_str(value).expect("a header value"));
        }
        Self {
            method,
            host: host.to_owned(),
            path: path.to_owned(),
            query,
            headers,
        }
    }

    /// The input of the router.
    pub(crate) fn view(&self) -> RequestView<'_, HeaderMap> {
        RequestView {
            host: self.host.as_bytes(),
            path: self.path.as_bytes(),
            query: self.query.as_deref().map(str::as_bytes),
            method: self.method.as_bytes(),
            headers: &self.headers,
        }
    }
}

/// The name of the rule selected, or `none`.
pub(crate) fn name(selected: Option<Selected>, rules: &[Rule]) -> &str {
    selected.map_or("none", |selected| rules[selected.route as usize].name())
}

pub(crate) fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).expect("a pattern")
}

fn header_match(text: &str, is_regex: bool) -> HeaderMatch {
    let (name, value) = text.split_once(':').expect("name:value");
    HeaderMatch {
        name: name.parse().expect("a header name"),
        value: string_match(value, is_regex),
    }
}

fn query_match(text: &str, is_regex: bool) -> QueryMatch {
    let (name, value) = text.split_once(':').expect("name:value");
    QueryMatch {
        name: name.to_owned(),
        value: string_match(value, is_regex),
    }
}

fn string_match(value: &str, is_regex: bool) -> StringMatch {
    if is_regex {
        StringMatch::Regex(pattern(value))
    } else {
        StringMatch::Exact(value.into())
    }
}
