//! Lowers session persistence.

use http::HeaderName;
use xds::model::{
    CookiePath, NameParts, ObjectName, SessionLifetime, SessionPersistence, SessionToken,
};

use super::api::{CookieLifetime, SessionPersistenceType};
use super::rule::duration;
use super::{api, header_edit};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

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
        SessionPersistenceType::Cookie => cookie(spec, route, rule)?,
        SessionPersistenceType::Header => header(spec, route, rule)?,
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

fn cookie(
    spec: &api::SessionPersistence,
    route: &ObjectName,
    rule: usize,
) -> Result<SessionToken, Problem> {
    let spec_cookie = spec.cookie.clone().unwrap_or_default();
    let (name, field) = match spec_cookie.name.filter(|name| !name.is_empty()) {
        Some(name) => (name, "cookie.name"),
        None => (session_name(spec, route, rule), "sessionName"),
    };
    let (lifetime, lifetime_field) = match spec.cookie_config {
        Some(config) => (config.lifetime_type, "cookieConfig.lifetimeType"),
        None => (spec_cookie.lifetime_type, "cookie.lifetimeType"),
    };
    let lifetime = match lifetime {
        CookieLifetime::Session => SessionLifetime::Session,
        CookieLifetime::Permanent if spec.absolute_timeout.is_some() => SessionLifetime::Permanent,
        CookieLifetime::Permanent => {
            let message = "a Permanent cookie needs `absoluteTimeout`: add it";
            return Err(unsupported(lifetime_field, message));
        }
    };
    let path = spec_cookie.path.filter(|path| !path.is_empty());
    let path = CookiePath::parse(path.as_deref().unwrap_or("/"));
    Ok(SessionToken::Cookie {
        name: cookie_name(name, field)?,
        path: path.map_err(|error| unsupported("cookie.path", error))?,
        lifetime,
    })
}

fn header(
    spec: &api::SessionPersistence,
    route: &ObjectName,
    rule: usize,
) -> Result<SessionToken, Problem> {
    let (name, field) = match &spec.header {
        Some(header) => (header.name.clone(), "header.name"),
        None => (session_name(spec, route, rule), "sessionName"),
    };
    let name = header_edit::name(&name).map_err(|problem| problem.under(field))?;
    Ok(SessionToken::Header(name))
}

/// The configured name, or a unique one. Names of objects and namespaces are RFC 9110 tokens, and a
/// namespace has no dot, so the parts cannot be ambiguous.
fn session_name(spec: &api::SessionPersistence, route: &ObjectName, rule: usize) -> String {
    let given = spec.session_name.clone().filter(|name| !name.is_empty());
    given.unwrap_or_else(|| {
        let NameParts { namespace, name } = &**route;
        format!("gateway-session.{namespace}.{name}.{rule}")
    })
}

fn cookie_name(name: String, field: &str) -> Result<String, Problem> {
    // RFC 6265 section 4.1.1: a `token`, the same grammar as header names.
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        let message = format!("`{name}` is not a cookie name: use letters, digits, `-` and `_`");
        return Err(unsupported(field, message));
    }
    Ok(name)
}

fn unsupported(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::UnsupportedValue, field, message)
}
