//! Session persistence.

use http::HeaderName;
use xds::model::{ObjectName, SessionLifetime, SessionPersistence, SessionToken};

use super::header_edit;
use super::rule::duration;
use crate::api::{self, CookieConfig, CookieLifetime, SessionPersistenceType};
use crate::problem::Problem;
use crate::status::Reason;

/// Lowers the session persistence of rule number `rule` of `route`.
pub(crate) fn lower(
    spec: &api::SessionPersistence,
    route: &ObjectName,
    rule: usize,
) -> Result<SessionPersistence, Problem> {
    let lowered = read(spec, route, rule);
    lowered.map_err(|problem| problem.under("sessionPersistence"))
}

fn read(
    spec: &api::SessionPersistence,
    route: &ObjectName,
    rule: usize,
) -> Result<SessionPersistence, Problem> {
    let time = |text: &Option<String>, field| {
        let time = text.as_deref().map(|text| duration(text, field));
        time.map(|time| time.map(|time| time.0)).transpose()
    };
    let absolute_timeout = time(&spec.absolute_timeout, "absoluteTimeout")?;
    let token = match spec.kind {
        SessionPersistenceType::Cookie => {
            let cookie = spec.cookie.clone().unwrap_or_default();
            let name = cookie_name(&cookie, route, rule)?;
            let lifetime = match cookie.lifetime_type {
                CookieLifetime::Session => SessionLifetime::Session,
                CookieLifetime::Permanent if absolute_timeout.is_some() => {
                    SessionLifetime::Permanent
                }
                CookieLifetime::Permanent => {
                    let message = "a Permanent cookie needs `absoluteTimeout`: add it";
                    return Err(unsupported("cookie.lifetimeType", message));
                }
            };
            SessionToken::Cookie { name, lifetime }
        }
        SessionPersistenceType::Header => SessionToken::Header(header_name(spec)?),
        SessionPersistenceType::Unknown => {
            return Err(unsupported("type", "use Cookie or Header"));
        }
    };
    Ok(SessionPersistence {
        token,
        absolute_timeout,
        idle_timeout: time(&spec.idle_timeout, "idleTimeout")?,
    })
}

/// The name that is asked for, or one that no other rule has. Names of objects and namespaces are
/// tokens of RFC 6265, and a namespace has no dot, so that the parts cannot run into each other.
fn cookie_name(cookie: &CookieConfig, route: &ObjectName, rule: usize) -> Result<String, Problem> {
    if cookie.path.as_deref().is_some_and(|path| path != "/") {
        let message = "session cookies hold for every path: leave `path` out or make it `/`";
        return Err(unsupported("cookie.path", message));
    }
    let Some(name) = cookie.name.as_deref().filter(|name| !name.is_empty()) else {
        let ObjectName { namespace, name } = route;
        return Ok(format!("gateway-session.{namespace}.{name}.{rule}"));
    };
    // The grammar of header names, too, is `token`.
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        let message = format!("`{name}` is not a cookie name: use letters, digits, `-` and `_`");
        return Err(unsupported("cookie.name", message));
    }
    Ok(name.to_owned())
}

fn header_name(spec: &api::SessionPersistence) -> Result<HeaderName, Problem> {
    let name = spec.header.as_ref().map_or("", |header| &header.name);
    header_edit::name(name).map_err(|problem| problem.under("header.name"))
}

fn unsupported(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::UnsupportedValue, field, message)
}
