//! References of filters to external authorization servers.

use std::num::NonZeroU32;

use http::HeaderName;
use xds::model::{AuthPathPrefix, ExternalAuth, ExternalAuthProtocol};

use super::api;
use super::api::{ExternalAuthFilter, ForwardBody};
use crate::backend::referrer::{Referrer, TrafficKind};
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers a filter, with the problems of its reference: requests are rejected if the server does
/// not resolve.
pub(crate) fn lower(
    reader: &Reader<'_>,
    from: Referrer<'_>,
    spec: &ExternalAuthFilter,
) -> Result<(ExternalAuth, Option<Problem>), Problem> {
    let (carries, protocol) = match spec.protocol {
        api::ExternalAuthProtocol::Http => (TrafficKind::Requests, http(spec)?),
        api::ExternalAuthProtocol::Grpc => (TrafficKind::Calls, grpc(spec)?),
        api::ExternalAuthProtocol::Unknown => {
            let message = "is not supported: use HTTP or GRPC";
            return Err(unsupported("protocol", message));
        }
    };
    let from = Referrer { carries, ..from };
    let (target, problem) = reader.follow(from, (&spec.backend_ref).into());
    let auth = ExternalAuth {
        target,
        protocol,
        body_bytes: body_bytes(spec.forward_body.unwrap_or_default())?,
    };
    Ok((auth, problem.map(|problem| problem.under("backendRef"))))
}

fn http(spec: &ExternalAuthFilter) -> Result<ExternalAuthProtocol, Problem> {
    let config = spec.http.clone().unwrap_or_default();
    let prefix = AuthPathPrefix::parse(config.path.as_deref().unwrap_or_default());
    Ok(ExternalAuthProtocol::Http {
        path_prefix: prefix.map_err(|error| unsupported("http.path", error))?,
        request_headers: names("http.allowedHeaders", &config.allowed_headers)?,
        response_headers: names(
            "http.allowedResponseHeaders",
            &config.allowed_response_headers,
        )?,
    })
}

fn grpc(spec: &ExternalAuthFilter) -> Result<ExternalAuthProtocol, Problem> {
    let config = spec.grpc.clone().unwrap_or_default();
    Ok(ExternalAuthProtocol::Grpc {
        request_headers: names("grpc.allowedHeaders", &config.allowed_headers)?,
    })
}

fn names(field: &str, texts: &[String]) -> Result<Vec<HeaderName>, Problem> {
    let names = texts.iter().enumerate().map(|(index, text)| {
        HeaderName::from_bytes(text.as_bytes()).map_err(|_| {
            let message = format!("`{text}` is not a header name: use letters, digits and `-`");
            unsupported(&format!("{field}[{index}]"), message)
        })
    });
    names.collect()
}

fn body_bytes(spec: ForwardBody) -> Result<Option<NonZeroU32>, Problem> {
    if spec.max_size > MAX_BODY_BYTES {
        let message = format!(
            "{} is too large: the proxy keeps at most {MAX_BODY_BYTES} bytes of a body in memory",
            spec.max_size
        );
        return Err(unsupported("forwardBody.maxSize", message));
    }
    Ok(NonZeroU32::new(spec.max_size))
}

fn unsupported(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::UnsupportedValue, field, message)
}

/// Maximum bytes of a request's body that are sent to a server: 1 MiB.
const MAX_BODY_BYTES: u32 = 1 << 20;
