//! What a request to the admin server says, read as the server reads it: for those who look for
//! bytes that break it.

use http::{HeaderMap, HeaderValue, Uri};

use crate::endpoint::{self, config_dump, cpu_profile, tasks, trace};
use crate::log;
use crate::query::{Query, clipped};
use crate::server;
use crate::watch::Wanted;

/// What is made of the parameters of a path; an error is what the client is told.
///
/// # Errors
/// They are refused.
pub fn parameters(path: &str, query: Option<&str>) -> Result<(), String> {
    let endpoint = endpoint::ADMIN.iter().find(|it| it.path == path);
    let endpoint = endpoint.ok_or_else(|| format!("nothing at {}", clipped(path)))?;
    let query = Query::parse(query, endpoint.parameters)?;
    match path {
        "/config_dump" => config_dump::Filter::read(&query).map(drop),
        "/debug/pprof/profile" => cpu_profile::Wanted::read(&query).map(drop),
        "/debug/pprof/heap" => cpu_profile::format(&query).map(drop),
        "/debug/tasks" => tasks::format(&query).map(drop),
        "/debug/trace" => trace::wanted(&query).and(trace::timeout(&query).map(drop)),
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

/// Whether a request of this target and these values of `Host` and `Origin` is let in.
#[must_use]
pub fn lets_in(uri: &Uri, host: &[u8], origin: Option<&[u8]>) -> bool {
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
    server::lets_in(uri, &headers)
}

/// Which requests a `match` wants; `None` where it is refused.
#[must_use]
pub fn wanted(text: &str) -> Option<Wanted> {
    Wanted::parse(text).ok()
}
