//! What is left of a route that a budget refuses: a rule that answers with 500 what its rules would take.
//!
//! Left out, the route would lend its requests to others, which may check less: those of `/admin` to
//! whoever has `/` of the same host.

use xds::encode::rule_bytes;
use xds::model::{
    Filters, HeaderMatch, HttpMatch, HttpRule, L4Rule, PathMatch, Pattern, QueryMatch, RouteRule,
    StringMatch, Timeouts,
};

use super::expressions::{any_text, beginning_with};
use super::matches::{every_path, literal_start};
use super::rule::answer_500;

/// Whether a closing rule has expressions of its own, which take room when compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Starts {
    /// Up to [`MAX_STARTS`], for the literal starts of paths.
    Kept,
    /// None.
    LeftOut,
}

/// The closing rule of a route, of at most `max_bytes` if that is not less than [`max_bytes`] ever returns.
/// It matches what the rules match, with any text in place of regular expressions; if that takes too much,
/// their paths; or else everything at the hosts of the route. `None` for a route without rules.
pub(crate) fn close(rules: &[&RouteRule], max_bytes: usize, starts: Starts) -> Option<RouteRule> {
    // Without backends, connections are closed and datagrams dropped.
    let l4 = L4Rule {
        name: None,
        backends: Vec::new(),
    };
    Some(match rules.first()? {
        RouteRule::Http(first) => {
            let all = rules.iter().filter_map(|rule| rule.http());
            let all = all.flat_map(|rule| &rule.matches);
            RouteRule::Http(close_http(first, all, max_bytes, starts))
        }
        RouteRule::Tls(_) => RouteRule::Tls(l4),
        RouteRule::Tcp(_) => RouteRule::Tcp(l4),
        RouteRule::Udp(_) => RouteRule::Udp(l4),
    })
}

/// The limit of the closing rule of a route at so many Gateways whose rules take `bytes` in all.
pub(crate) fn max_bytes(bytes: usize, gateways: usize) -> usize {
    let limit = MAX_BYTES / gateways.max(1);
    // A start may be longer than the expression that it replaces.
    limit.min(bytes.saturating_mul(2)).max(EVERYTHING_BYTES)
}

/// What the starts of these rules take when compiled, at most.
pub(crate) fn start_bytes<'a>(rules: impl Iterator<Item = &'a RouteRule>) -> u64 {
    let matches = rules.filter_map(RouteRule::http).flat_map(|it| &it.matches);
    let paths = matches.filter(|it| matches!(it.path, PathMatch::Regex(_)));
    paths.take(MAX_STARTS).count() as u64 * START_BYTES
}

/// Of a route that is closed; short, as it counts in what closing rules may take.
const WHY_CLOSED: &str = "the route is refused as a whole: its status says why";

fn close_http<'a>(
    first: &HttpRule,
    matches: impl Iterator<Item = &'a HttpMatch>,
    max_bytes: usize,
    starts: Starts,
) -> HttpRule {
    let rule = |matches: Vec<HttpMatch>| {
        answer_500(HttpRule {
            name: None,
            protocol: first.protocol,
            matches: matches.into(),
            filters: Filters::default(),
            backends: Box::default(),
            timeouts: Timeouts::default(),
            retry: None,
            session: None,
            invalid: Some(WHY_CLOSED.into()),
        })
    };
    let fits = |rule: &HttpRule| rule_bytes(&RouteRule::Http(rule.clone())) <= max_bytes;
    let mut starts = match starts {
        Starts::Kept => KnownStarts::default(),
        Starts::LeftOut => KnownStarts {
            room: 0,
            ..KnownStarts::default()
        },
    };
    let mut exact: Vec<HttpMatch> = Vec::new();
    for matched in matches {
        let widened = widened(matched, &mut starts);
        if !exact.contains(&widened) {
            exact.push(widened);
        }
    }
    let mut paths: Vec<HttpMatch> = Vec::new();
    for matched in &exact {
        let path = of_path(matched.path.clone());
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let closings = [exact, paths].into_iter().map(rule);
    let fitting = closings.into_iter().find(fits);
    fitting.unwrap_or_else(|| rule(vec![of_path(every_path())]))
}

fn of_path(path: PathMatch) -> HttpMatch {
    HttpMatch {
        path,
        method: None,
        headers: Box::default(),
        query: Box::default(),
    }
}

/// The same match with any text in place of expressions, whatever they may mean. A path keeps its literal
/// start, as long as there is room.
fn widened(matches: &HttpMatch, starts: &mut KnownStarts) -> HttpMatch {
    let value = |value: &StringMatch| match value {
        StringMatch::Regex(_) => StringMatch::Regex(any_text()),
        exact @ StringMatch::Exact(_) => exact.clone(),
    };
    let path = match &matches.path {
        PathMatch::Regex(pattern) => PathMatch::Regex(starts.of(pattern)),
        other => other.clone(),
    };
    let headers = matches.headers.iter().map(|header| HeaderMatch {
        name: header.name.clone(),
        value: value(&header.value),
    });
    let query = matches.query.iter().map(|parameter| QueryMatch {
        name: parameter.name.clone(),
        value: value(&parameter.value),
    });
    HttpMatch {
        path,
        method: matches.method.clone(),
        headers: headers.collect(),
        query: query.collect(),
    }
}

/// The expressions for literal starts that a closing rule has.
struct KnownStarts {
    room: usize,
    known: Vec<Pattern>,
}

impl Default for KnownStarts {
    fn default() -> Self {
        Self {
            room: MAX_STARTS,
            known: Vec::new(),
        }
    }
}

impl KnownStarts {
    fn of(&mut self, pattern: &Pattern) -> Pattern {
        let start = literal_start(pattern.as_str());
        let mut end = start.len().min(MAX_START);
        while !start.is_char_boundary(end) {
            end -= 1;
        }
        // Every path begins with a slash.
        let start = start[..end].trim_end_matches(|it| end == 1 && it == '/');
        if start.is_empty() {
            return any_text();
        }
        let Ok(pattern) = Pattern::parse(&beginning_with(start)) else {
            return any_text();
        };
        if !self.known.contains(&pattern) {
            if self.known.len() >= self.room {
                return any_text();
            }
            self.known.push(pattern.clone());
        }
        pattern
    }
}

/// The largest closing rule of a route, times its listeners: 64 KiB, a KiB at each of 64 listeners. Some 30
/// bytes are a path.
const MAX_BYTES: usize = 64 * 1024;
/// What a rule for everything takes at most.
const EVERYTHING_BYTES: usize = 128;
/// Most expressions of a closing rule: 8, as routes with more mostly have the same start.
const MAX_STARTS: usize = 8;
/// Bytes of a literal start, which may be shorter than in the expression: 64.
const MAX_START: usize = 64;
/// What an expression for such a start takes when compiled, at most: 4 KiB.
const START_BYTES: u64 = 4 * 1024;

/// What the expressions of a closing rule take when compiled, at most.
pub(crate) const MAX_STARTS_BYTES: u64 = MAX_STARTS as u64 * START_BYTES;

#[cfg(test)]
mod tests {
    use http::Method;
    use xds::model::RequestProtocol;

    use super::*;

    fn matching(path: PathMatch) -> HttpMatch {
        HttpMatch {
            method: Some(Method::POST),
            ..of_path(path)
        }
    }

    fn regex(text: &str) -> PathMatch {
        PathMatch::Regex(Pattern::parse(text).expect("valid"))
    }

    fn rule(matches: Vec<HttpMatch>) -> RouteRule {
        RouteRule::Http(HttpRule {
            name: Some("name".into()),
            protocol: RequestProtocol::Http,
            matches: matches.into(),
            filters: Filters::default(),
            backends: Box::default(),
            timeouts: Timeouts::default(),
            retry: None,
            session: None,
            invalid: None,
        })
    }

    fn closed(rules: &[RouteRule], max_bytes: usize, starts: Starts) -> Vec<HttpMatch> {
        let rules: Vec<&RouteRule> = rules.iter().collect();
        let closed = close(&rules, max_bytes, starts).expect("it has rules");
        assert!(rule_bytes(&closed) <= max_bytes, "{closed:?}");
        let RouteRule::Http(closed) = closed else {
            panic!("not of HTTP");
        };
        closed.matches.into()
    }

    #[test]
    fn a_closing_rule_matches_what_all_rules_match() {
        let admin = PathMatch::prefix("/admin").expect("valid");
        let rules = [
            rule(vec![matching(admin.clone()), matching(admin.clone())]),
            rule(vec![matching(regex("/api/v1/[0-9]+"))]),
        ];
        let [first, second] = closed(&rules, 1000, Starts::Kept)
            .try_into()
            .expect("equal ones once");
        assert_eq!(first, matching(admin));
        assert_eq!(second, matching(regex("/api/v1/(?s:.*)")));
        let without = closed(&rules, 1000, Starts::LeftOut);
        assert_eq!(without[1], matching(PathMatch::Regex(any_text())));
    }

    #[test]
    fn a_closing_rule_is_bounded() {
        let paths = (0..100).map(|number| PathMatch::prefix(&format!("/{number}")));
        let matches: Vec<HttpMatch> = paths.map(|it| matching(it.expect("valid"))).collect();
        let rules = [rule(matches)];
        let all = closed(&rules, 2_100, Starts::Kept);
        assert_eq!((all.len(), &all[0].method), (100, &Some(Method::POST)));
        let paths = closed(&rules, 1_300, Starts::Kept);
        assert_eq!((paths.len(), &paths[0].method), (100, &None));
        for bytes in [0, 1, usize::MAX] {
            let max_bytes = max_bytes(bytes, 2_000);
            let everything = closed(&rules, max_bytes, Starts::Kept);
            assert_eq!(everything, [of_path(every_path())]);
        }
    }

    #[test]
    fn the_expressions_of_a_closing_rule_are_few_and_small() {
        let long = "/é".repeat(200);
        let paths = (0..20).map(|number| matching(regex(&format!("/{number}{long}[a-z]"))));
        let rules = [rule(paths.collect())];
        let matches = closed(&rules, 100_000, Starts::Kept);
        let patterns = matches.iter().filter_map(|it| match &it.path {
            PathMatch::Regex(pattern) if *pattern != any_text() => Some(pattern),
            _ => None,
        });
        let bytes: Vec<usize> = patterns.map(Pattern::compiled_bytes).collect();
        assert_eq!(bytes.len(), MAX_STARTS);
        let total: usize = bytes.into_iter().sum();
        assert!(total as u64 <= start_bytes(rules.iter()), "{total}");
    }
}
