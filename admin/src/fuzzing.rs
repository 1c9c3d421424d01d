//! Entry points for the fuzz targets: parsing of requests to the admin server.

use http::{HeaderMap, HeaderValue, Uri};

use crate::endpoint::{self, config_dump, cpu_profile, tasks, trace};
use crate::log;
use crate::query::{Query, clipped};
use crate::server;
use crate::watch::TraceFilter;

/// Parses the parameters of a path; the error is the message that the client gets.
///
/// # Errors
/// They are invalid.
pub fn parameters(path: &str, query: Option<&str>) -> Result<(), String> {
    let endpoint = endpoint::ADMIN.iter().find(|it| it.path == path);
    let endpoint = endpoint.ok_or_else(|| format!("no endpoint at {}", clipped(path)))?;
    let query = Query::parse(query, endpoint.parameters)?;
    match path {
        "/config_dump" => config_dump::Filter::parse(&query).map(drop),
        "/debug/pprof/profile" => cpu_profile::Parameters::parse(&query).map(drop),
        "/debug/pprof/heap" => cpu_profile::format(&query).map(drop),
        "/debug/tasks" => tasks::format(&query).map(drop),
        "/debug/trace" => trace::filter(&query).and(trace::timeout(&query).map(drop)),
        "/logging" => match query.text("level") {
            Some(level) => log::parse(level)
                .map(drop)
                .map_err(|it| clipped(&it.to_string())),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Paths of the admin server.
pub fn paths() -> impl Iterator<Item = &'static str> {
    endpoint::ADMIN.iter().map(|endpoint| endpoint.path)
}

/// Whether a request with this target, `Host` and `Origin` is allowed.
#[must_use]
pub fn allows(uri: &Uri, host: &[u8], origin: Option<&[u8]>) -> bool {
    let mut headers = HeaderMap::new();
    let Ok(host) = HeaderValue::from_bytes(host) else {
        return false;
    };
    headers.insert(http::header::HOST, host);
    if let Some(origin) = origin {
        let Ok(origin) = HeaderValue::from_bytes(origin) else {
            return false;
        };
        headers.insert(http::header::ORIGIN, origin);
    }
    server::allows(uri, &headers)
}

/// Parses a `match` parameter; None where it is invalid.
#[must_use]
pub fn trace_filter(text: &str) -> Option<TraceFilter> {
    TraceFilter::parse(text).ok()
}
