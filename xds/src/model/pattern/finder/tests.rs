use regex_automata::Input;
use regex_automata::meta::Regex;
use regex_automata::util::{captures::Captures, syntax};

use super::*;

/// All matches, an empty one directly after another left out, each with its groups.
type All = Vec<Vec<Option<(usize, usize)>>>;

fn found(finder: &Finder, memory: &mut FinderMemory, text: &[u8], groups: usize) -> All {
    let mut all = Vec::new();
    let (mut from, mut last) = (0, None);
    let work = &mut MatchWork::of(u64::MAX);
    while let Some(found) = finder.find(text, from, memory, work).expect("enough work") {
        if found.start == found.end && last == Some(found.end) {
            from = found.end + 1;
            continue;
        }
        let group = |number| memory.group(number).map(|it| (it.start, it.end));
        all.push((0..=groups).map(group).collect());
        (from, last) = (found.end, Some(found.end));
    }
    all
}

/// The same by the engine of the regex crate.
fn expected(regex: &Regex, text: &[u8], groups: usize) -> All {
    let captures = |captures: Captures| {
        let group = |number| captures.get_group(number).map(|it| (it.start, it.end));
        (0..=groups).map(group).collect()
    };
    regex
        .captures_iter(Input::new(text))
        .map(captures)
        .collect()
}

fn regex(pattern: &str) -> Regex {
    let syntax = syntax::Config::new()
        .utf8(false)
        .unicode(false)
        .dot_matches_new_line(true);
    let config = Regex::config().utf8_empty(false);
    let mut builder = Regex::builder();
    builder
        .configure(config)
        .syntax(syntax)
        .build(pattern)
        .expect(pattern)
}

fn text(alphabet: &[u8], length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        alphabet[state as usize % alphabet.len()]
    };
    (0..length).map(next).collect()
}

const PATTERNS: [&str; 28] = [
    "",
    "a",
    "a*",
    "a|ab",
    "ab|a",
    "(a)(b)?",
    "(a|b)*",
    "(a*)(b*)",
    "^a",
    "a$",
    "^$",
    "^",
    "$",
    "(a|ab)(c|bcd)",
    "(a+)(b+)",
    r"\ba",
    r"a\b",
    r"\b",
    "(?i)A",
    "^(a*)b",
    "[^a]+",
    "(^a)|b",
    "a(b|$)",
    "((a)|b)+",
    "(a*)*",
    "(|a)b",
    "/([^/]*)",
    "^/a(/|$)(.*)",
];

#[test]
fn matches_and_groups_are_those_of_the_regex_crate() {
    let mut matches = 0;
    for pattern in PATTERNS {
        let finder = Finder::compile(pattern, Groups::Wanted).expect(pattern);
        let mut memory = finder
            .memory(&mut MatchWork::of(u64::MAX))
            .expect("enough work");
        let regex = regex(pattern);
        let groups = regex
            .group_info()
            .group_len(regex_automata::PatternID::ZERO)
            - 1;
        for seed in 0..400 {
            let text = text(b"ab/cd", seed as usize % 12, seed);
            let all = found(&finder, &mut memory, &text, groups);
            assert_eq!(all, expected(&regex, &text, groups), "{pattern} {text:?}");
            matches += all.len();
        }
    }
    assert!(matches > 5_000, "{matches}");
}

#[test]
fn without_groups_only_the_match_is_known() {
    let finder = Finder::compile("(a)(b)", Groups::Ignored).expect("an expression");
    let mut memory = finder
        .memory(&mut MatchWork::of(u64::MAX))
        .expect("enough work");
    assert_eq!(
        found(&finder, &mut memory, b"xab", 1),
        [[Some((1, 3)), None]]
    );
    assert!(matches!(finder.groups, GroupEngine::None));
}

#[test]
fn most_expressions_have_an_automaton_that_knows_groups() {
    for (pattern, has) in [
        ("^/api/([^/]+)/(.*)$", true),
        (r"^/(\w+)/v([0-9]+)", true),
        ("(a*)(a*)", false),
    ] {
        let finder = Finder::compile(pattern, Groups::Wanted).expect(pattern);
        assert_eq!(
            matches!(finder.groups, GroupEngine::OnePass(_)),
            has,
            "{pattern}"
        );
    }
}

#[test]
fn what_takes_too_much_memory_is_refused() {
    for pattern in [
        "(a{200}){200}",
        "[a-z]{255}[0-9]{255}(x|y){255}(abc|def){255}",
    ] {
        let refused = Finder::compile(pattern, Groups::Ignored);
        assert_eq!(refused.err(), Some(FinderError::TooLarge), "{pattern}");
    }
    let ordinary = Finder::compile("^/api/([^/]+)/(.*)$", Groups::Wanted).expect("small");
    assert!(ordinary.bytes() < 8 << 10, "{}", ordinary.bytes());
}

#[test]
fn a_search_ends_within_its_work() {
    let finder = Finder::compile("(a|b)*a(a|b){200}c", Groups::Ignored).expect("an expression");
    let mut memory = finder
        .memory(&mut MatchWork::of(u64::MAX))
        .expect("enough work");
    let text = text(b"ab", 16 << 10, 1);
    let mut work = MatchWork::of(1 << 20);
    let found = finder.find(&text, 0, &mut memory, &mut work);
    assert_eq!((found, work.left()), (Err(WorkExceeded), 0));
    let found = finder.find(b"abab", 0, &mut memory, &mut MatchWork::of(1 << 20));
    assert_eq!(found, Ok(None));
}
