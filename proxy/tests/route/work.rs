//! The work of regular expressions for one request is bounded, and what exceeds it matches nothing.

use proxy::limits::REGEX_STEPS_PER_REQUEST;
use proxy::route::{Mismatch, Outcome, RegexCache};
use xds::model::WorkExceeded;

use super::rules::{Request, Rule, compile, name};

/// Thirty rules whose expressions take seconds together for a value that was made for them, one without
/// protection that would match, and an ordinary one of another host.
fn rules() -> Vec<Rule> {
    let costly = (0..30).map(|number| {
        let expression = format!("(a|b)*a(a|b){{{}}}c", 400 - number);
        Rule::parse(&format!(
            "costly{number} host=a.com header~x-a:{expression}"
        ))
    });
    let others = ["open host=a.com", "ordinary host=b.com header~x-a:[ab]+"];
    costly.chain(others.map(Rule::parse)).collect()
}

/// A request whose header leads every expression from state to state, without a period.
fn made_for_them(host: &str) -> Request {
    let mut state = 1_u32;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        if state.is_multiple_of(2) { 'a' } else { 'b' }
    };
    let value: String = (0..16 << 10).map(next).collect();
    Request::parse(&format!("GET {host}/ x-a:{value}"))
}

#[test]
fn a_request_made_for_costly_expressions_ends_within_its_work_and_gets_no_other_rule() {
    let rules = rules();
    let (router, mut cache) = (compile(&rules), RegexCache::new());
    for _ in 0..2 {
        let request = made_for_them("a.com");
        let selected = router.select(&request.view(), &mut cache);
        assert_eq!(selected, Err(WorkExceeded));
        assert_eq!(cache.steps(), REGEX_STEPS_PER_REQUEST);
        // Requests after it have work of their own.
        for (request, expected) in [
            (Request::parse("GET a.com/ x-a:b"), "open"),
            (Request::parse("GET b.com/ x-a:ab"), "ordinary"),
            (made_for_them("b.com"), "ordinary"),
        ] {
            let selected = router.select(&request.view(), &mut cache);
            assert_eq!(name(selected.expect("little work"), &rules), expected);
        }
        assert!(cache.steps() < 32 << 10, "{}: a step a byte", cache.steps());
    }
}

/// Ordinary expressions of one host, none of which is told apart by how it begins: the last one matches.
#[test]
fn two_hundred_ordinary_expressions_are_compared_with_a_long_path_and_header() {
    let forms = [
        "regex=/[a-z]+/v[0-9]+/items-N/[0-9a-f-]+(/.*)?",
        "regex=/.*/(users|accounts|orders)/N/.*",
        "regex=/(en|de|fr|es)(-[A-Z]{2})?/[^/]+/N/.*",
        "header~user-agent:.*(Mobile|Android|iPhone).*Version/N.*",
        "header~user-agent:(?i).*bot-N[^a-z].*",
    ];
    let rules = (0..200).map(|number| {
        let form = forms[number % forms.len()].replace('N', &number.to_string());
        Rule::parse(&format!("ordinary{number} host=a.com {form}"))
    });
    let last = Rule::parse("last host=a.com regex=/[a-z]+/(.*/)?last");
    let rules: Vec<Rule> = rules.chain([last]).collect();
    let segments: Vec<String> = (0..300).map(|number| format!("/seg-{number}")).collect();
    let path = segments.concat();
    assert!(path.len() > 2_000);
    let agent = "Mozilla/5.0(Linux;x86_64)AppleWebKit/537.36(KHTML,like-Gecko)".repeat(4);
    let request = Request::parse(&format!("GET a.com/shop{path}/last user-agent:{agent}"));
    let (router, mut cache) = (compile(&rules), RegexCache::new());
    for _ in 0..2 {
        let selected = router.select(&request.view(), &mut cache);
        let steps = cache.steps();
        assert_eq!(name(selected.expect("enough work"), &rules), "last");
        assert!(steps < REGEX_STEPS_PER_REQUEST / 2, "{steps}");
    }
}

#[test]
fn a_trace_names_what_was_not_compared() {
    let rules = rules();
    let router = compile(&rules);
    let request = made_for_them("a.com");
    let considered = router.explain(&request.view(), &mut RegexCache::new(), usize::MAX);
    let outcomes: Vec<_> = considered.iter().map(|it| it.outcome).collect();
    assert_eq!(outcomes.len(), 32);
    assert!(outcomes.contains(&Outcome::Lost(Mismatch::NotCompared)));
    assert!(
        outcomes.contains(&Outcome::Shadowed),
        "{outcomes:?}: the open one"
    );
    assert!(!outcomes.contains(&Outcome::Selected), "{outcomes:?}");
}

#[test]
fn requests_without_expressions_take_no_work() {
    let rules = [Rule::parse("plain prefix=/a header=x-a:1")];
    let (router, mut cache) = (compile(&rules), RegexCache::new());
    let request = Request::parse("GET a.com/a x-a:1");
    let selected = router.select(&request.view(), &mut cache);
    assert_eq!(name(selected.expect("no work"), &rules), "plain");
    assert_eq!(cache.steps(), 0);
}
