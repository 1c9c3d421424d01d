//! Cross-origin resource sharing.

use std::time::Duration;

use http::{HeaderName, Method};
use xds::model::{Allow, Cors, CorsOrigin};

use super::api::CorsFilter;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

pub(crate) fn lower(spec: &CorsFilter) -> Result<Cors, Problem> {
    let origins = spec.allow_origins.iter().enumerate().map(|(index, text)| {
        origin(text).ok_or_else(|| {
            let message = format!(
                "`{text}` is not an origin: use `*`, or scheme, host and port such as \
                 `https://*.example.com:8443`"
            );
            let field = format!("allowOrigins[{index}]");
            Problem::new(Reason::UnsupportedValue, field, message)
        })
    });
    let method = |text: &str| Method::from_bytes(text.as_bytes()).ok();
    let header = |text: &str| HeaderName::from_bytes(text.as_bytes()).ok();
    Ok(Cors {
        allow_origins: origins.collect::<Result<_, _>>()?,
        allow_credentials: spec.allow_credentials.unwrap_or(false),
        allow_methods: allow(&spec.allow_methods, "allowMethods", method)?,
        allow_headers: allow(&spec.allow_headers, "allowHeaders", header)?,
        expose_headers: allow(&spec.expose_headers, "exposeHeaders", header)?,
        max_age: Duration::from_secs(spec.max_age.into()),
    })
}

fn allow<T>(
    texts: &[String],
    list: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Allow<T>, Problem> {
    if texts.iter().any(|text| text == "*") {
        return Ok(Allow::Any);
    }
    let parsed = texts.iter().enumerate().map(|(index, text)| {
        parse(text).ok_or_else(|| {
            let field = format!("{list}[{index}]");
            let message = format!("`{text}` is neither a name nor `*`");
            Problem::new(Reason::UnsupportedValue, field, message)
        })
    });
    Ok(Allow::Listed(parsed.collect::<Result<_, _>>()?))
}

/// Normalises an origin as browsers send it: lower case, no default port.
fn origin(text: &str) -> Option<CorsOrigin> {
    if text == "*" {
        return Some(CorsOrigin::Any);
    }
    let text = text.to_ascii_lowercase();
    let (scheme, authority) = text.split_once("://")?;
    let default_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let authority = authority.strip_suffix(default_port).unwrap_or(authority);
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().is_err()) || !is_host(host) {
        return None;
    }
    match host.strip_prefix('*') {
        None => Some(CorsOrigin::Exact(format!("{scheme}://{authority}"))),
        Some(_) => Some(CorsOrigin::Wildcard {
            before: format!("{scheme}://"),
            after: authority.strip_prefix('*')?.to_owned(),
        }),
    }
}

/// `*`, `*.` and a name, or a name or IPv4 address.
fn is_host(host: &str) -> bool {
    let name = match host.strip_prefix('*') {
        Some("") => return true,
        Some(rest) => match rest.strip_prefix('.') {
            Some(name) => name,
            None => return false,
        },
        None => host,
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    name.split('.')
        .all(|label| !label.is_empty() && label.bytes().all(allowed))
}
