//! The explanation of a selection for operators.

use http::{HeaderName, Method};
use proxy::route::{ConsideredMatch, Mismatch, Outcome, RegexCache};

use super::rules::{Request, Rule, compile};

const RULES: [&str; 10] = [
    "value exact=/a/b header=x-a:1",
    "missing prefix=/a/b header=x-b:1",
    "method prefix=/a/b method=PUT",
    "query prefix=/a query=q:1",
    "parameter prefix=/a query=r:1",
    "winner prefix=/a",
    "shadowed",
    "pattern regex=/x.*",
    "path prefix=/b",
    "host host=a.com",
];

fn explain(request: &str, limit: usize) -> Vec<(u32, String)> {
    let rules = RULES.map(Rule::parse);
    let router = compile(&rules);
    let request = Request::parse(request);
    let list = router.explain(&request.view(), &mut RegexCache::new(), limit);
    list.iter()
        .map(|considered| (considered.route, format!("{:?}", considered.outcome)))
        .collect()
}

#[test]
fn explains_in_matching_order_why_each_rule_lost() {
    let rules = RULES.map(Rule::parse);
    let router = compile(&rules);
    let request = Request::parse("GET b.com/a/b?q=2 x-a:2");
    let (a, b) = (
        HeaderName::from_static("x-a"),
        HeaderName::from_static("x-b"),
    );
    let lost = Outcome::Lost;
    let expected = [
        (0, lost(Mismatch::HeaderValue(&a))),
        (2, lost(Mismatch::Method(&Method::PUT))),
        (1, lost(Mismatch::HeaderMissing(&b))),
        (4, lost(Mismatch::QueryMissing("r"))),
        (3, lost(Mismatch::QueryValue("q"))),
        (5, Outcome::Selected),
        (6, Outcome::Shadowed),
        (7, lost(Mismatch::Path)),
        (8, lost(Mismatch::Path)),
        (9, lost(Mismatch::Host)),
    ];
    let considered = router.explain(&request.view(), &mut RegexCache::new(), usize::MAX);
    let expected = expected.map(|(route, outcome)| ConsideredMatch {
        route,
        match_index: 0,
        outcome,
    });
    assert_eq!(considered, expected);
}

#[test]
fn stops_at_the_limit() {
    let all = explain("GET b.com/a/b", usize::MAX);
    assert_eq!(all.len(), RULES.len());
    for limit in 0..all.len() {
        assert_eq!(explain("GET b.com/a/b", limit), all[..limit]);
    }
}
