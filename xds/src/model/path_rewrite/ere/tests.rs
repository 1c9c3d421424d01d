use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use super::translate;

fn compiled(pattern: &str) -> Regex {
    let translated = translate(pattern).expect(pattern);
    let syntax = syntax::Config::new()
        .utf8(false)
        .unicode(false)
        .dot_matches_new_line(true);
    let mut builder = Regex::builder();
    let regex = builder.syntax(syntax).build(&translated.text);
    regex.unwrap_or_else(|error| panic!("{pattern} became {}: {error}", translated.text))
}

/// What a pattern matches first in a text, or "none".
fn first<'t>(pattern: &str, text: &'t str) -> &'t str {
    compiled(pattern)
        .find(text)
        .map_or("none", |found| &text[found.range()])
}

#[track_caller]
fn expect(pattern: &str, cases: &[(&str, &str)]) {
    for (text, matched) in cases {
        assert_eq!(first(pattern, text), *matched, "{pattern} on {text:?}");
    }
}

/// The examples of GEP-4359, in other words.
#[test]
fn hosts_with_optional_schemes_match_whole_or_not_at_all() {
    let pattern = r"^(https?://)?www\.example\.(com|org)$";
    for scheme in ["", "http://", "https://"] {
        for domain in ["com", "org"] {
            let host = format!("{scheme}www.example.{domain}");
            assert_eq!(first(pattern, &host), host);
        }
    }
    for other in [
        "example.com",
        "www.example.net",
        "www.example.(com|org)",
        "www.example.corg",
        "www.example.comorg",
        "ahttp://www.example.org",
        "http://www.example.orga",
        "wwwxexample.com",
    ] {
        assert_eq!(first(pattern, other), "none", "{other}");
    }
}

#[test]
fn repetitions_take_as_much_as_they_can() {
    expect("a*", &[("", ""), ("a", "a"), ("vaaaaaa", ""), ("b", "")]);
    expect(
        "a+",
        &[
            ("a", "a"),
            ("baaaaab", "aaaaa"),
            ("", "none"),
            ("b", "none"),
        ],
    );
    expect(r"\*+", &[("*", "*"), ("****", "****")]);
    for same in ["^colo(u|)r$", "^colou?r$", "^colo(u)?r$", "^colou{0,1}r$"] {
        let cases = [
            ("color", "color"),
            ("colour", "colour"),
            ("colouur", "none"),
            ("colo(u)r", "none"),
        ];
        expect(same, &cases);
    }
    expect("(a|ab)", &[("ab", "a")]);
    expect("a{2}", &[("aaa", "aa")]);
    expect("a{2,}", &[("aaa", "aaa")]);
}

#[test]
fn brackets_mean_what_gep_4359_says() {
    let cases = [
        ("a", "a"),
        ("Z", "Z"),
        ("5", "5"),
        (".", "."),
        ("-", "none"),
        (" ", "none"),
    ];
    expect("[a-zA-Z0-9.]", &cases);
    expect(
        "[^a-zA-Z]",
        &[
            ("-", "-"),
            (" ", " "),
            ("9", "9"),
            ("a", "none"),
            ("Z", "none"),
        ],
    );
    expect(
        "^[^^]$",
        &[
            ("a", "a"),
            ("1", "1"),
            ("-", "-"),
            ("", "none"),
            ("^", "none"),
            ("ab", "none"),
        ],
    );
    for same in ["^[-a]$", "^[a-]$"] {
        expect(same, &[("-", "-"), ("a", "a"), ("b", "none")]);
    }
    for same in [r"^[-.*(){}|^$\\]$", r"^[\-\.\*\(\)\{\}\|\^\$\\]$"] {
        for member in "-.*(){}|^$\\".chars().map(String::from) {
            assert_eq!(first(same, &member), member, "{same}");
        }
        expect(same, &[("a", "none"), ("/", "none"), ("[", "none")]);
    }
    expect(r"[\-Z]", &[("-", "-"), ("Z", "Z"), ("Y", "none")]);
    expect(r"^[\]]$", &[("]", "]"), ("\\", "none")]);
}

/// `regex_syntax` reads sets and operators in these.
#[test]
fn what_is_an_operator_elsewhere_is_literal_in_brackets() {
    expect("^[a&&b]+$", &[("a&b", "a&b"), ("c", "none")]);
    expect("^[a~~b]+$", &[("a~b", "a~b")]);
    expect("^[+--]+$", &[("+,-", "+,-"), (".", "none")]);
    expect("^[a[b]+$", &[("a[b", "a[b")]);
    expect("^[]a]+$", &[("]a", "]a"), ("b", "none")]);
    expect("^[^]a]+$", &[("b", "b"), ("]", "none")]);
    expect(r"^[\d\w.-]+$", &[("a_1.-", "a_1.-"), ("/", "none")]);
    expect(r"^[^\s]+$", &[("ab", "ab"), ("a b", "none")]);
    expect(r"^[\W]$", &[("/", "/"), ("a", "none")]);
    expect(
        "^[[:alpha:][:digit:]_]+$",
        &[("aZ9_", "aZ9_"), ("-", "none")],
    );
    expect(
        "^[^[:punct:]]+$",
        &[("aZ", "aZ"), ("[", "none"), ("~", "none")],
    );
    expect(
        "^[[:punct:]]{32}$",
        &[(
            "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
            "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
        )],
    );
    expect("[#-&]+", &[("#$%&", "#$%&")]);
}

#[test]
fn what_is_beyond_posix_means_ascii() {
    expect(
        r"^\d\w\W\s$",
        &[("1a/ ", "1a/ "), ("1a/\t", "1a/\t"), ("1a/\n", "none")],
    );
    expect(r"\w+", &[("\u{e9}a", "a")]);
    expect(r"\bv1\b", &[("/v1/", "v1"), ("/xv1/", "none")]);
    expect("(?i)^/API/[a-c]$", &[("/api/B", "/api/B")]);
    expect("(?:ab)+", &[("ababa", "abab")]);
    expect(r"\/a\.b\ c", &[("/a.b c", "/a.b c")]);
    expect("a}]b", &[("a}]b", "a}]b")]);
    assert_eq!(translate("(a)(?:b)(c|(d))").expect("groups").groups, 3);
}

/// What is no extended regular expression, with a part of its message.
const REFUSED: &[(&str, &str)] = &[
    (
        "a(?=b)",
        "look-ahead `(?=` is not supported: write the expression without it, at character 2",
    ),
    ("(?!b)", "negative look-ahead `(?!` is not supported"),
    ("(?<=b)", "look-behind `(?<=` is not supported"),
    ("(?<!b)", "negative look-behind `(?<!` is not supported"),
    (
        "(?<n>b)",
        "a named group `(?<` is not supported: write `(` alone and count groups from 1",
    ),
    ("(?P<n>b)", "a named group `(?P` is not supported"),
    ("(?>b)", "an atomic group `(?>` is not supported"),
    ("(?#b)", "a comment `(?#` is not supported"),
    ("(?|b)", "a branch reset `(?|` is not supported"),
    (
        "a(?i)b",
        "`(?i)` anywhere but at the start is not supported",
    ),
    (
        "(?s)b",
        "a flag in `(?` is not supported: only `(?i)` at the start",
    ),
    ("(?i:b)", "a flag in `(?` is not supported"),
    (
        r"(a)\1",
        r"a back-reference `\1` inside the pattern is not supported",
    ),
    (
        r"\D",
        r"`\D` is not supported: write `[^0-9]`, at character 1",
    ),
    (r"a\S", r"`\S` is not supported"),
    (r"\B", r"`\B` is not supported"),
    (r"\Aa", r"`\A` is not supported: write `^`"),
    (r"a\z", r"`\z` is not supported: write `$`"),
    (r"\x41", r"`\x` is no part of extended regular expressions"),
    (r"\p{L}", r"`\p` is no part"),
    (r"\n", r"`\n` is no part"),
    (
        r"[\n]",
        r"`\n` is no part of extended regular expressions: write the characters it stands for, at character 2",
    ),
    (r"[\b]", r"`\b` inside brackets"),
    (r"[\D]", r"`\D` is not supported"),
    (
        "a*?",
        "a lazy repetition (`*?`, `+?`, `??`, `{}?`) is not supported",
    ),
    ("a{1,2}?", "a lazy repetition"),
    ("a*+", "a possessive repetition"),
    (
        "a**",
        "a repetition of a repetition is not supported: put the first into `(?:)`, at character 3",
    ),
    ("a+{2}", "a repetition of a repetition"),
    (
        "*a",
        "`*` has nothing to repeat: write `\\*` for the character, at character 1",
    ),
    ("(+a)", "`+` has nothing to repeat"),
    ("a|?", "`?` has nothing to repeat"),
    ("^*", "`*` repeats `^`, `$` or `\\b`"),
    (r"\b+", "`+` repeats `^`, `$` or `\\b`"),
    ("a{", "`{` begins a repetition"),
    ("a{,2}", "`{` begins a repetition"),
    ("a{x}", "`{` begins a repetition"),
    ("a{+1}", "`{` begins a repetition"),
    ("a{}", "`{` begins a repetition"),
    ("{", "`{` has nothing to repeat"),
    ("a{256}", "`{256}` repeats too often: use 255 or less"),
    ("a{99999999999}", "repeats too often"),
    ("a{3,2}", "`{3,2}` has its larger number first"),
    (
        "(a",
        "`(` has no `)`: add it, or write `\\(` for the character, at character 1",
    ),
    (
        "a)",
        "`)` has no `(`: add it, or write `\\)` for the character, at character 2",
    ),
    ("a)|(b", "`)` has no `(`"),
    (
        "[a",
        "`[` has no `]`: add it, or write `\\[` for the character, at character 1",
    ),
    ("a[]", "`[` has no `]`"),
    ("[^]", "`[` has no `]`"),
    (
        "[z-a]",
        "the range `z-a` is empty: turn it round, at character 2",
    ),
    (r"[\d-z]", "a range cannot begin or end with a class"),
    (r"[a-\d]", "a range cannot begin or end with a class"),
    (
        "[[:word:]]",
        "`[:` begins the name of a class: use one of alnum, alpha",
    ),
    ("[[:alpha]]", "`[:` begins the name of a class"),
    ("[[.a.]]", "a collating symbol `[.` is not supported"),
    ("[[=a=]]", "an equivalence class `[=` is not supported"),
    ("a\\", "the expression ends with `\\`"),
    ("[\\", "the expression ends with `\\`"),
    ("/é", "a character beyond ASCII is never in a path as it is"),
    ("[é]", "a character beyond ASCII"),
    ("\\é", "a character beyond ASCII"),
    ("a\u{7}", "a control character is never in a path"),
    ("[\n]", "a control character is never in a path"),
];

#[test]
fn every_construct_that_is_none_is_refused_by_name_and_place() {
    for (pattern, message) in REFUSED {
        let error = translate(pattern)
            .map(|it| it.text)
            .expect_err(pattern)
            .to_string();
        assert!(error.contains(message), "{pattern}: {error}");
        assert!(error.contains(", at character "), "{pattern}: {error}");
    }
}

/// Whatever is accepted compiles: the parser of the engine has nothing left to refuse.
#[test]
fn short_texts_of_all_operators_compile_or_are_refused() {
    let alphabet: Vec<char> = r"a\[](){}*+?|^$.-:,1b&~".chars().collect();
    let mut accepted = 0;
    for seed in 0..200_000_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % 1_000).expect("small")
        };
        let length = 1 + next() % 7;
        let text: String = (0..length)
            .map(|_| alphabet[next() % alphabet.len()])
            .collect();
        if let Ok(translated) = translate(&text) {
            accepted += 1;
            let mut parser = regex_syntax::ParserBuilder::new();
            let parsed = parser
                .utf8(false)
                .unicode(false)
                .build()
                .parse(&translated.text);
            assert!(
                parsed.is_ok(),
                "{text} became {}: {parsed:?}",
                translated.text
            );
        }
    }
    assert!(accepted > 20_000, "{accepted}");
}
