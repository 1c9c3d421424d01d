//! The gRPC form of external authorization: `envoy.service.auth.v3.Authorization/Check`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

use http::{HeaderName, StatusCode};

use super::messages::{
    Address, AttributeContext, CheckRequest, CheckResponse, DeniedResponse, HttpRequest, Peer,
    Request, SocketAddress,
};
use super::{Denial, MissingVerdict, Subject, Verdict};
use crate::http::grammar::is_equivalent;
use crate::http::known::KnownHeader;
use crate::limits::MUTATION_EDITS;
use crate::policy::mutation::{HeaderMutation, Mutation, TooManyEdits};

/// The gRPC method that is called.
pub const CHECK: &str = "/envoy.service.auth.v3.Authorization/Check";

/// The attributes of the client's connection that are sent to the server.
#[derive(Debug, Clone, Copy)]
pub struct RequestSource {
    /// Address of the client.
    pub address: IpAddr,
    /// Scheme of the request: `http` or `https`.
    pub scheme: &'static str,
    /// Protocol version, such as `HTTP/1.1`.
    pub protocol: &'static str,
    /// Bytes of the body, if its length is known from the head.
    pub size: Option<u64>,
}

/// The message that asks for a decision. `listed` are the fields that are sent; empty means all.
#[must_use]
pub fn check_request(
    listed: &[HeaderName],
    subject: &Subject<'_>,
    arrival: &RequestSource,
) -> CheckRequest {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in subject.lines() {
        let is_shown = |it: &HeaderName| is_equivalent(it.as_str().as_bytes(), name);
        if !listed.is_empty() && !listed.iter().any(is_shown) {
            continue;
        }
        match headers.entry(text(name).to_ascii_lowercase()) {
            Entry::Vacant(entry) => {
                entry.insert(text(value));
            }
            // Also to an empty value: the server has to see as many as the backend.
            Entry::Occupied(mut entry) => {
                let separator = match KnownHeader::of(name) {
                    KnownHeader::Cookie => "; ",
                    _ => ",",
                };
                entry.get_mut().push_str(separator);
                entry.get_mut().push_str(&text(value));
            }
        }
    }
    let socket_address = SocketAddress {
        address: arrival.address.to_string(),
    };
    let address = Address {
        socket_address: Some(socket_address),
    };
    let http = HttpRequest {
        method: text(subject.method),
        headers,
        path: text(subject.target),
        host: text(subject.authority),
        scheme: arrival.scheme.to_owned(),
        size: arrival
            .size
            .map_or(-1, |size| i64::try_from(size).unwrap_or(i64::MAX)),
        protocol: arrival.protocol.to_owned(),
        raw_body: subject.body.to_vec(),
    };
    CheckRequest {
        attributes: Some(AttributeContext {
            source: Some(Peer {
                address: Some(address),
            }),
            request: Some(Request { http: Some(http) }),
        }),
    }
}

/// Interprets a server's response.
///
/// # Errors
///
/// The response is malformed, or demands something that is not supported.
pub fn interpret(
    response: CheckResponse,
    subject: &Subject<'_>,
) -> Result<Verdict, MissingVerdict> {
    let code = response.status.map_or(0, |status| status.code);
    if code != 0 {
        return denial(response.denied_response.unwrap_or_default()).map(Verdict::Denied);
    }
    if response.denied_response.is_some() {
        return Err(MissingVerdict("the response both allows and denies"));
    }
    let granted = response.ok_response.unwrap_or_default();
    if !granted.query_parameters_to_set.is_empty() || !granted.query_parameters_to_remove.is_empty()
    {
        return Err(MissingVerdict(
            "the response edits the query, which is not supported",
        ));
    }
    let mutation = HeaderMutation {
        set_headers: granted.headers,
        remove_headers: granted.headers_to_remove,
    };
    let mut grants = Mutation::default();
    grants.take(&mutation, |name| subject.has(name))?;
    if granted.response_headers_to_add.len() > MUTATION_EDITS {
        return Err(TooManyEdits.into());
    }
    Ok(Verdict::Allowed {
        grants,
        response: granted.response_headers_to_add,
    })
}

fn denial(denied: DeniedResponse) -> Result<Denial, MissingVerdict> {
    let code = denied.status.map_or(0, |status| status.code);
    let status = match u16::try_from(code) {
        Ok(0) => StatusCode::FORBIDDEN,
        // Any other would read as success, or as an answer that the client has already.
        Ok(code @ (300..=303 | 305..=599)) => {
            StatusCode::from_u16(code).unwrap_or(StatusCode::FORBIDDEN)
        }
        _ => return Err(MissingVerdict("the status of the denial is invalid")),
    };
    let mutation = HeaderMutation {
        set_headers: denied.headers,
        remove_headers: Vec::new(),
    };
    let mut lines = Mutation::default();
    lines.take(&mutation, |_| false)?;
    // The gateway adds its own, of which there may be one (RFC 9110 section 6.6.1).
    lines.forget(b"date");
    Ok(Denial {
        status,
        lines: lines.lines().to_vec(),
        body: denied.body.into_bytes(),
    })
}
