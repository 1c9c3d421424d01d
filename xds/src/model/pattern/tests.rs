use super::{InvalidPattern, MatchWork, Pattern, PatternBudget};

fn is_match(pattern: &str, text: impl AsRef<[u8]>) -> bool {
    let pattern = Pattern::parse(pattern).expect("a valid pattern");
    let matcher = pattern.matcher();
    let work = &mut MatchWork::of(u64::MAX);
    let mut memory = matcher.memory(work).expect("enough work");
    let is_match = matcher.is_match(text.as_ref(), &mut memory, work);
    is_match.expect("enough work")
}

#[test]
fn a_pattern_matches_the_whole_text() {
    assert!(is_match("a|ab", "ab"));
    assert!(is_match("/v[0-9]+/.*", "/v12/x"));
    assert!(is_match("", ""));
    assert!(!is_match("b", "abc"));
    assert!(!is_match("a|b", "ab"));
    assert!(!is_match("(?m)a", "a\nb"));
    assert!(is_match("^/a$", "/a"));
}

#[test]
fn a_pattern_cannot_break_out_of_its_anchors() {
    for text in ["a)|(?:b", "a)|(b", ")("] {
        assert!(Pattern::parse(text).is_err(), "{text}");
    }
    assert!(!is_match("(?x)a # b", "ab"));
    assert!(is_match("(?x)a # b", "a"));
}

#[test]
fn classes_are_those_of_ascii_and_texts_are_bytes() {
    assert!(is_match(r"\w+\s\d", "ab_1 2"));
    assert!(!is_match(r"\w", "é"));
    assert!(!is_match(r"\d", "٣"));
    assert!(!is_match("(?i)k", "\u{212a}"), "the Kelvin sign");
    assert!(is_match("(?i)k", "K"));
    assert!(is_match(r"x=.*", b"x=\xff\xfe"), "not UTF-8");
    assert!(is_match("[^/]+", "é"));
    assert!(is_match("café", "café"));
    assert!(is_match(r"a\b.b", "a b"));
}

#[test]
fn unicode_classes_can_be_asked_for() {
    assert!(is_match(r"(?u:\w)", "é"));
    for text in [r"\p{Greek}+", "[α-ω]+"] {
        assert!(is_match(text, "αβγ"), "{text}");
        assert!(!is_match(text, "abc"), "{text}");
    }
    assert!(is_match(r"(?u)\bα\b.*", "α β"), "has no lazy automaton");
    let bytes = |text| Pattern::parse(text).expect(text).compiled_bytes();
    assert!(bytes(r"\w") < 3 << 10, "{}", bytes(r"\w"));
    assert!(bytes(r"(?u:\w)") > 16 << 10, "{}", bytes(r"(?u:\w)"));
}

#[test]
fn a_pattern_is_refused_with_its_reason() {
    let reason = |text: &str| Pattern::parse(text).expect_err(text).to_string();
    assert_eq!(
        reason("a("),
        "the regular expression `a(` does not compile: unclosed group"
    );
    assert_eq!(
        reason("(a{1000}){1000}"),
        "the regular expression `(a{1000}){1000}` takes more than 64 KiB when compiled, the budget \
         of one: reduce its repetitions, or its classes of Unicode characters"
    );
    assert!(reason(r"(?u)\w{20}").contains("64 KiB"));
    assert_eq!(
        Pattern::parse(&"a".repeat(1025)),
        Err(InvalidPattern::TooLong(1025))
    );
}

#[test]
fn the_memory_of_searches_is_bounded() {
    // Each byte leads to a state of its own.
    let pattern = Pattern::parse("(a|b)*a(a|b){300}").expect("valid");
    let (matcher, work) = (pattern.matcher(), &mut MatchWork::of(u64::MAX));
    let mut memory = matcher.memory(work).expect("enough work");
    let text: Vec<u8> = (0..20_000_u32)
        .map(|at| b"ab"[usize::from(at.wrapping_mul(2_654_435_761) >> 13 & 1 == 0)])
        .collect();
    for start in 0..4 {
        let _ = matcher.is_match(&text[start..], &mut memory, work);
        let bytes = memory.bytes();
        assert!((1 << 10..100 << 10).contains(&bytes), "{bytes}");
    }
}

#[test]
fn the_expressions_of_an_object_are_refused_beyond_their_budget() {
    let mut budget = PatternBudget::default();
    let text = |number: usize| format!("{number}[a-z]{{1000}}");
    let count = (0..).take_while(|number| budget.parse(&text(*number)).is_ok());
    let count = count.count();
    assert!((60..100).contains(&count), "{count} of some 25 KiB");
    let refused = budget.parse("small").expect_err("no other is taken");
    assert!(matches!(&refused, InvalidPattern::OverBudget { bytes, limit } if bytes > limit));
    let message = refused.to_string();
    for part in ["KiB of 2048 KiB", "use fewer or simpler ones"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(budget.into_patterns().len(), count);
}

#[test]
fn equal_expressions_of_an_object_count_once() {
    let mut budget = PatternBudget::default();
    for _ in 0..1000 {
        budget.parse("[a-z]{1000}").expect("it was compiled once");
    }
    assert_eq!(budget.into_patterns().len(), 1);
}

#[test]
fn no_more_invalid_expressions_are_compiled_than_a_status_lists() {
    let mut budget = PatternBudget::default();
    for number in 0..PatternBudget::MAX_INVALID {
        let refused = budget.parse(&format!("(a{{1000}}){{1000}}{number}"));
        assert!(matches!(refused, Err(InvalidPattern::TooLarge(_))));
    }
    assert_eq!(
        budget.parse("valid"),
        Err(InvalidPattern::NotChecked(PatternBudget::MAX_INVALID))
    );
}
