//! Lowers redirects and rewrites.

use http::StatusCode;
use xds::model::{Hostname, PathEdit, Redirect, Rewrite, Scheme};

use super::api::{
    HttpRouteMatch, PathMatchType, PathModifier, PathModifierType, RedirectFilter, RewriteFilter,
};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers a redirect in a rule of these matches.
pub(crate) fn redirect(
    spec: &RedirectFilter,
    matches: &[HttpRouteMatch],
) -> Result<Redirect, Problem> {
    let scheme = match spec.scheme.as_deref() {
        None => None,
        Some("http") => Some(Scheme::Http),
        Some("https") => Some(Scheme::Https),
        Some(other) => {
            let message = format!("`{other}` is not a scheme to redirect to: use http or https");
            return Err(unsupported("scheme", message));
        }
    };
    let status = StatusCode::from_u16(spec.status_code).ok();
    let status = status.filter(|status| REDIRECTS.contains(&status.as_u16()));
    let status = status.ok_or_else(|| {
        let message = format!(
            "{} is not a redirect: use 301, 302, 303, 307 or 308",
            spec.status_code
        );
        unsupported("statusCode", message)
    })?;
    Ok(Redirect {
        scheme,
        hostname: hostname(spec.hostname.as_deref())?,
        path: path(spec.path.as_ref(), matches)?,
        port: spec.port.map(u16::from),
        status,
    })
}

/// Lowers a rewrite in a rule of these matches.
pub(crate) fn rewrite(
    spec: &RewriteFilter,
    matches: &[HttpRouteMatch],
) -> Result<Rewrite, Problem> {
    Ok(Rewrite {
        hostname: hostname(spec.hostname.as_deref())?,
        path: path(spec.path.as_ref(), matches)?,
    })
}

fn hostname(text: Option<&str>) -> Result<Option<Hostname>, Problem> {
    let Some(text) = text else {
        return Ok(None);
    };
    let hostname = Hostname::parse(text).map_err(|error| unsupported("hostname", error))?;
    if hostname.wildcard_suffix().is_some() {
        let message = format!("`{text}` is a wildcard: use one host name");
        return Err(unsupported("hostname", message));
    }
    Ok(Some(hostname))
}

fn path(
    spec: Option<&PathModifier>,
    matches: &[HttpRouteMatch],
) -> Result<Option<PathEdit>, Problem> {
    let Some(spec) = spec else {
        return Ok(None);
    };
    match (
        spec.kind,
        &spec.replace_full_path,
        &spec.replace_prefix_match,
    ) {
        (PathModifierType::ReplaceFullPath, Some(path), _) => {
            check_replacement(path, "path.replaceFullPath")?;
            Ok(Some(PathEdit::Full(path.clone())))
        }
        (PathModifierType::ReplacePrefixMatch, _, Some(prefix)) => {
            check_prefix_matches(matches)?;
            if !prefix.is_empty() {
                check_replacement(prefix, "path.replacePrefixMatch")?;
            }
            Ok(Some(PathEdit::PrefixMatch(prefix.clone())))
        }
        (PathModifierType::Unknown, ..) => {
            let message = "use ReplaceFullPath or ReplacePrefixMatch";
            Err(unsupported("path.type", message))
        }
        _ => Err(unsupported(
            "path.type",
            "the field for this type is required: add it",
        )),
    }
}

/// A prefix can only be replaced if a prefix was matched.
fn check_prefix_matches(matches: &[HttpRouteMatch]) -> Result<(), Problem> {
    let all_prefixes = matches
        .iter()
        .all(|it| it.path.kind == PathMatchType::PathPrefix);
    if all_prefixes {
        return Ok(());
    }
    let message = "ReplacePrefixMatch needs all matches to be of type PathPrefix: change the matches, \
                   or use ReplaceFullPath";
    Err(Problem::new(
        Reason::IncompatibleFilters,
        "path.type",
        message,
    ))
}

/// A path without query that is valid in a request line or a Location (RFC 3986 section 3.3).
fn check_replacement(path: &str, field: &str) -> Result<(), Problem> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte);
    let mut after_percent = path.split('%').skip(1);
    let escaped = after_percent.all(|rest| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    if path.starts_with('/') && path.bytes().all(plain) && escaped {
        return Ok(());
    }
    let message = format!(
        "`{path}` cannot replace a path: start it with `/`, escape characters that RFC 3986 does not allow, \
         and leave out query and fragment"
    );
    Err(unsupported(field, message))
}

fn unsupported(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::UnsupportedValue, field, message)
}

/// The statuses that Gateway API allows for redirects.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
