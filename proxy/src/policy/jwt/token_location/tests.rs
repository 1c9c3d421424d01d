use xds::model::JwtSource;

use super::{TokenLocation, TokenSources, write_rest};
use crate::policy::jwt::Refusal;
use crate::policy::sample::{fields, written};

fn find(
    location: &TokenLocation,
    lines: &[(&str, &str)],
    query: Option<&str>,
) -> Result<String, Refusal> {
    let (fields, bytes) = fields(lines);
    let sources = TokenSources {
        fields: &fields,
        bytes: &bytes,
        query,
    };
    let found = location.find(sources)?.map(<[u8]>::to_vec);
    Ok(found.map_or("nothing".to_owned(), |token| {
        String::from_utf8(token).expect("ASCII")
    }))
}

#[test]
fn a_malformed_bearer_token_is_distinguished_from_a_missing_one() {
    for (values, expected) in [
        (&["Bearer a.b.c"][..], Ok("a.b.c")),
        (&["bEARER  a.b.c"], Ok("a.b.c")),
        (&["Bearer\ta.b.c"], Ok("a.b.c")),
        (&["Bearer a b"], Ok("a b")),
        (&[], Ok("nothing")),
        (&["Basic dTpw"], Ok("nothing")),
        (&["Bearera.b.c x"], Ok("nothing")),
        (&["Bearer"], Err(Refusal::Malformed)),
        (&["Bearer "], Err(Refusal::Malformed)),
        (&["a.b.c"], Err(Refusal::Malformed)),
        (&[""], Err(Refusal::Malformed)),
        (&["Bearer a.b.c", "Bearer a.b.c"], Err(Refusal::Ambiguous)),
        (&["Basic dTpw", "Bearer a.b.c"], Err(Refusal::Ambiguous)),
    ] {
        let lines: Vec<_> = values
            .iter()
            .map(|&value| ("authorization", value))
            .collect();
        let found = find(&TokenLocation::bearer(), &lines, None);
        assert_eq!(found, expected.map(str::to_owned), "{values:?}");
    }
}

#[test]
fn a_custom_header_may_hold_a_token_without_a_prefix() {
    let location = TokenLocation::compile(&JwtSource::Header {
        name: "x-token".parse().expect("a name"),
        prefix: String::new(),
    });
    let other = ("Authorization", "Bearer x.y.z");
    let found = |lines: &[_]| find(&location, lines, None);
    assert_eq!(
        found(&[("X-Token", "a.b.c"), other]),
        Ok("a.b.c".to_owned())
    );
    assert_eq!(found(&[other]), Ok("nothing".to_owned()));
    assert_eq!(found(&[("x-token", "")]), Err(Refusal::Malformed));
    let twice = [("x-token", "a"), ("X-TOKEN", "b")];
    assert_eq!(found(&twice), Err(Refusal::Ambiguous));
}

#[test]
fn a_prefix_is_an_authentication_scheme_or_literal_text() {
    for (prefix, value, expected) in [
        ("JWT ", "jwt a.b.c", Ok("a.b.c")),
        ("JWT ", "other a.b.c", Ok("nothing")),
        ("JWT ", "jwta.b.c", Err(Refusal::Malformed)),
        ("token=", "token=a.b.c", Ok("a.b.c")),
        ("token=", "Token= a.b.c", Ok("a.b.c")),
        ("token=", "a.b.c", Err(Refusal::Malformed)),
        ("token=", "token=", Err(Refusal::Malformed)),
        ("token=", "x", Err(Refusal::Malformed)),
        (" ", "a.b.c", Ok("a.b.c")),
    ] {
        let location = TokenLocation::compile(&JwtSource::Header {
            name: "x-token".parse().expect("a name"),
            prefix: prefix.to_owned(),
        });
        let found = find(&location, &[("x-token", value)], None);
        assert_eq!(found, expected.map(str::to_owned), "{prefix:?} {value:?}");
    }
}

#[test]
fn a_query_parameter_is_found_despite_percent_encoding() {
    let location = TokenLocation::compile(&JwtSource::Query("access_token".to_owned()));
    for (query, expected) in [
        (Some("access_token=a.b.c"), Ok("a.b.c")),
        (Some("x=1&access_token=a.b.c&y=2"), Ok("a.b.c")),
        (Some("access%5Ftoken=a.b.c"), Ok("a.b.c")),
        (Some("access_token"), Ok("")),
        (Some("access_token=%61"), Ok("%61")),
        (Some("access_tokens=a&Access_token=b"), Ok("nothing")),
        (Some(""), Ok("nothing")),
        (None, Ok("nothing")),
        (
            Some("access_token=a&access_token=a"),
            Err(Refusal::Ambiguous),
        ),
        (
            Some("access_token=a&access%5ftoken=b"),
            Err(Refusal::Ambiguous),
        ),
    ] {
        let found = find(&location, &[], query);
        assert_eq!(found, expected.map(str::to_owned), "{query:?}");
    }
}

#[test]
fn the_token_parameter_is_removed_from_the_target() {
    let location = TokenLocation::compile(&JwtSource::Query("t".to_owned()));
    for (target, expected) in [
        ("/a?t=x", "/a"),
        ("/a?t=x&b=1", "/a?b=1"),
        ("/a?b=1&t=x&c=2", "/a?b=1&c=2"),
        ("/a?%74=x&c", "/a?c"),
        ("/a?tt=x&&", "/a?tt=x&&"),
        ("/a?t=x&b&t=y&t", "/a?b"),
        ("/a?t&%74=y", "/a"),
        ("/t=x", "/t=x"),
        ("/a?", "/a?"),
    ] {
        let edited = written(|out| {
            out.extend_from_slice(target.as_bytes());
            location.edit_target(out);
        });
        assert_eq!(edited, expected);
    }
}

#[test]
fn the_token_cookie_is_found_and_removed() {
    let location = TokenLocation::compile(&JwtSource::Cookie("token".to_owned()));
    for (lines, found_there, rest) in [
        (&["token=a.b.c"][..], Ok("a.b.c"), ""),
        (
            &["a=1; token=a.b.c;b=2"],
            Ok("a.b.c"),
            "Cookie: a=1; b=2\r\n",
        ),
        (&["a=1", "token=x", "b=2"], Ok("x"), "Cookie: a=1; b=2\r\n"),
        (
            &["tokens=1; Token=2"],
            Ok("nothing"),
            "Cookie: tokens=1; Token=2\r\n",
        ),
        (&["token="], Ok(""), ""),
        (&["token=1; token=2"], Err(Refusal::Ambiguous), ""),
        (&["token=1", "token=2"], Err(Refusal::Ambiguous), ""),
    ] {
        let lines: Vec<_> = lines.iter().map(|&value| ("Cookie", value)).collect();
        let found = find(&location, &lines, None);
        assert_eq!(found, found_there.map(str::to_owned), "{lines:?}");
        let (fields, bytes) = fields(&lines);
        let sources = TokenSources {
            fields: &fields,
            bytes: &bytes,
            query: None,
        };
        let output = written(|out| write_rest(|| std::iter::once(&location), sources, out));
        assert_eq!(output, rest, "{lines:?}");
    }
}
