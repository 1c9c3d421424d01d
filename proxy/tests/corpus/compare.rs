//! Compares messages with what a case expects of them. Findings are sentences, not panics: a run
//! reports every case that fails.

use crate::case::Expectation;
use crate::support::{Framing, Message};

/// Compares a request that reached the origin.
pub(crate) fn request(expected: &Expectation, got: &Message) -> Result<(), String> {
    let start = format!("{} {}", got.method(), got.target());
    if start != expected.start {
        return Err(format!(
            "`{}` should have been forwarded, not `{start}`",
            expected.start
        ));
    }
    if !got.complete {
        return Err(format!("`{start}` never reached the origin wholly"));
    }
    clean_request(got)?;
    parts(expected, got)?;
    let body = expected.body.clone().unwrap_or_default();
    same_body(&body, &got.body)
}

/// Compares a response that reached the client.
pub(crate) fn response(expected: &Expectation, got: &Message) -> Result<(), String> {
    if got.status().to_string() != expected.start {
        return Err(format!("{} should have come, not {got}", expected.start));
    }
    for name in ["Keep-Alive", "Proxy-Connection", "Trailer"] {
        if got.has(name) {
            return Err(format!("{name} is hop-by-hop and came through: {got}"));
        }
    }
    parts(expected, got)?;
    expected
        .body
        .as_ref()
        .map_or(Ok(()), |body| same_body(body, &got.body))
}

/// Checks that hold for every forwarded request.
fn clean_request(got: &Message) -> Result<(), String> {
    let upgrade = got.has("Upgrade");
    let wrong = if got.version() != "HTTP/1.1" {
        "another version than HTTP/1.1"
    } else if got.values("Host").len() != 1 {
        "not exactly one Host"
    } else if got.values("TE").iter().any(|te| *te != "trailers") {
        "TE with more than `trailers`"
    } else if got
        .values("Connection")
        .iter()
        .any(|option| !(upgrade || is_te(option)))
    {
        "Connection that asks for more than an upgrade or TE"
    } else if [
        "Keep-Alive",
        "Proxy-Connection",
        "Proxy-Authorization",
        "Trailer",
    ]
    .iter()
    .any(|name| got.has(name))
    {
        "a hop-by-hop field"
    } else if !got.body.is_empty() && got.framing == Framing::Nothing {
        "a body without framing"
    } else {
        return Ok(());
    };
    Err(format!("forwarded with {wrong}: {got}"))
}

/// RFC 9110 section 10.1.4: a sender of TE names it in Connection.
fn is_te(option: &str) -> bool {
    option.eq_ignore_ascii_case("te")
}

fn parts(expected: &Expectation, got: &Message) -> Result<(), String> {
    for (name, _) in &expected.fields {
        let wanted: Vec<&str> = expected
            .fields
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
            .collect();
        let found = got.values(name);
        if found != wanted {
            return Err(format!(
                "{name} should be {wanted:?}, not {found:?}, in {got}"
            ));
        }
    }
    if let Some(name) = expected.absent.iter().find(|name| got.has(name)) {
        return Err(format!("{name} should not be there: {got}"));
    }
    let trailer = |name: &str| {
        got.trailers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
    };
    for (name, value) in &expected.trailers {
        if trailer(name).map(|(_, v)| v) != Some(value) {
            return Err(format!(
                "the trailer {name}: {value} should be there: {got}"
            ));
        }
    }
    match expected
        .absent_trailers
        .iter()
        .find(|name| trailer(name).is_some())
    {
        Some(name) => Err(format!("the trailer {name} should not be there: {got}")),
        None => Ok(()),
    }
}

fn same_body(expected: &[u8], got: &[u8]) -> Result<(), String> {
    if expected == got {
        return Ok(());
    }
    let excerpt = |bytes: &[u8]| bytes.get(..200).unwrap_or(bytes).escape_ascii().to_string();
    Err(format!(
        "the body should be `{}`, not `{}`",
        excerpt(expected),
        excerpt(got)
    ))
}
