//! The HTTP form of external authorization: a copy of the request's head is sent, and status 200
//! allows the request.

use http::header::{AUTHORIZATION, DATE, SERVER};
use http::{HeaderMap, HeaderName, StatusCode};
use xds::model::AuthPathPrefix;

use super::{Denial, MissingVerdict, Subject, Verdict};
use crate::http::grammar::is_equivalent;
use crate::http::h1::encode::field;
use crate::http::hop_by_hop::describes_path;
use crate::policy::mutation::Mutation;

/// Appends the target of the request to the server: the request's target below a prefix.
pub fn write_target(prefix: &AuthPathPrefix, subject: &Subject<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(prefix.as_str().as_bytes());
    out.extend_from_slice(subject.target);
}

/// Appends the fields of the request that are sent to the server: those that are listed, and
/// Authorization.
pub fn write_lines(listed: &[HeaderName], subject: &Subject<'_>, out: &mut Vec<u8>) {
    for (name, value) in subject.lines() {
        let is_shown = |it: &HeaderName| is_equivalent(it.as_str().as_bytes(), name);
        if listed.iter().any(is_shown) || is_shown(&AUTHORIZATION) {
            field(out, name, value);
        }
    }
}

/// Interprets a server's response; its body is `None` if it exceeded the limit. `listed` selects
/// the fields of the response that are added to the request; empty means all (GEP-1494) but those that
/// describe the response itself, or that the gateway writes about the request's path: a proxy in front
/// of the server adds its own of these to every response.
///
/// # Errors
///
/// The server failed, or its response is not a decision.
pub fn interpret(
    status: StatusCode,
    headers: &HeaderMap,
    body: Option<Vec<u8>>,
    listed: &[HeaderName],
) -> Result<Verdict, MissingVerdict> {
    match status.as_u16() {
        200 => Ok(Verdict::Allowed {
            grants: grants(headers, listed),
            response: Vec::new(),
        }),
        // A cache would mistake it for the response to the client.
        304 => Err(MissingVerdict(
            "the authorization server responded with 304",
        )),
        300..=499 => Ok(Verdict::Denied(denial(status, headers, body))),
        // To a client it would read as success.
        201..=299 => Ok(Verdict::Denied(Denial::with_status(StatusCode::FORBIDDEN))),
        _ => Err(MissingVerdict("the authorization server failed")),
    }
}

/// If fields are listed, a client must not be able to supply one that the server left out.
fn grants(headers: &HeaderMap, listed: &[HeaderName]) -> Mutation {
    let mut grants = Mutation::default();
    for name in listed {
        grants.forget(name.as_str().as_bytes());
    }
    for name in headers.keys() {
        let is_granted = match listed {
            [] => !describes_response(name) && !describes_path(name.as_str().as_bytes()),
            listed => listed.contains(name),
        };
        if !is_granted {
            continue;
        }
        grants.forget(name.as_str().as_bytes());
        for value in headers.get_all(name) {
            grants.append(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    grants
}

fn denial(status: StatusCode, headers: &HeaderMap, body: Option<Vec<u8>>) -> Denial {
    let mut lines = Mutation::default();
    for (name, value) in headers {
        let is_of_body = name.as_str().starts_with("content-");
        if *name != DATE && (body.is_some() || !is_of_body) {
            lines.append(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    Denial {
        status,
        lines: lines.lines().to_vec(),
        body: body.unwrap_or_default(),
    }
}

/// Whether a field describes the server's response itself, and would be wrong on the request.
fn describes_response(name: &HeaderName) -> bool {
    name.as_str().starts_with("content-") || [&DATE, &SERVER].contains(&name)
}
