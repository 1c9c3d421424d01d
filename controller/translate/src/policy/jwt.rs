//! JWT authentication. A policy with a problem refuses every request; without keys nothing is verified.

use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderName, Uri};
use xds::model::{
    ClaimHeader, Hostname, InvalidBackend, JwksLocation, JwtExpiry, JwtForward, JwtKeys, JwtMode,
    JwtPolicy, JwtProvider, JwtSource, Target,
};

use super::api::{
    ClaimHeaderSpec, JwksSpec, JwtFromSpec, JwtHeaderSpec, JwtModeSpec, JwtProviderSpec, JwtSpec,
    RemoteJwksSpec,
};
use super::jwks;
use crate::backend::external_host;
use crate::backend::referrer::Referrer;
use crate::objects::reader::Reader;
use crate::route::header_edit;
use crate::route::rule::duration;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// The lowered JWT settings of a policy.
pub(crate) struct LoweredJwt {
    pub(crate) policy: JwtPolicy,
    pub(crate) problems: Vec<Problem>,
    /// References that do not resolve.
    pub(crate) refs: Vec<Problem>,
}

/// Lowers the JWT settings of the policy `from`.
pub(crate) fn lower(reader: &Reader<'_>, from: Referrer<'_>, spec: &JwtSpec) -> LoweredJwt {
    let (mut problems, mut refs) = (Vec::new(), Vec::new());
    if spec.providers.is_empty() {
        let message = "no provider is configured: add one with issuer and jwks";
        problems.push(invalid("providers", message));
    }
    let mut issuers = HashSet::new();
    let specs = spec.providers.iter().enumerate();
    let providers = specs.filter_map(|(index, spec)| {
        let at = format!("providers[{index}]");
        let lowered = if issuers.insert(&spec.issuer) {
            provider(reader, from, spec)
        } else {
            Err(invalid(
                "issuer",
                "another provider has this issuer: keep one of them",
            ))
        };
        let (provider, problem) = lowered
            .map_err(|problem| problems.push(problem.under(&at)))
            .ok()?;
        refs.extend(problem.map(|problem| problem.under(&at)));
        Some(provider)
    });
    let providers = providers.collect();
    let realm = spec.realm.as_deref().map(realm).transpose();
    let realm = realm.map_err(|problem| problems.push(problem)).ok();
    LoweredJwt {
        policy: JwtPolicy {
            mode: match spec.mode {
                JwtModeSpec::Strict => JwtMode::Strict,
                JwtModeSpec::Optional => JwtMode::Optional,
            },
            realm: realm.flatten(),
            providers,
        },
        problems,
        refs,
    }
}

/// A provider, and why its keys are unavailable.
fn provider(
    reader: &Reader<'_>,
    from: Referrer<'_>,
    spec: &JwtProviderSpec,
) -> Result<(JwtProvider, Option<Problem>), Problem> {
    if spec.issuer.is_empty() {
        return Err(invalid(
            "issuer",
            "is required: set it to the `iss` of the tokens",
        ));
    }
    let (keys, problem) = keys(reader, from, &spec.jwks).map_err(|it| it.under("jwks"))?;
    let claims = spec.claims_to_headers.iter().enumerate();
    let claims = claims.map(|(index, spec)| {
        claim(spec).map_err(|it| it.under(format_args!("claimsToHeaders[{index}]")))
    });
    let provider = JwtProvider {
        name: spec.name.clone(),
        issuer: spec.issuer.clone(),
        audiences: spec.audiences.clone(),
        keys,
        from: sources(&spec.from).map_err(|it| it.under("from"))?,
        forward: if spec.forward {
            JwtForward::Keep
        } else {
            JwtForward::Strip
        },
        claims_to_headers: claims.collect::<Result<_, _>>()?,
        clock_skew: spec.clock_skew.as_deref().map(clock_skew).transpose()?,
        expiry: if spec.require_expiry.unwrap_or(true) {
            JwtExpiry::Required
        } else {
            JwtExpiry::Optional
        },
    };
    Ok((provider, problem.map(|problem| problem.under("jwks"))))
}

fn keys(
    reader: &Reader<'_>,
    from: Referrer<'_>,
    spec: &JwksSpec,
) -> Result<(JwtKeys, Option<Problem>), Problem> {
    match (&spec.inline, &spec.remote) {
        (Some(text), None) => {
            jwks::check(text).map_err(|why| invalid("inline", why))?;
            Ok((JwtKeys::Inline(text.clone()), None))
        }
        (None, Some(remote)) => {
            let remote = self::remote(reader, from, remote);
            let (keys, problem) = remote.map_err(|problem| problem.under("remote"))?;
            Ok((keys, problem.map(|problem| problem.under("remote"))))
        }
        _ => Err(invalid("", "set exactly one of inline and remote")),
    }
}

fn remote(
    reader: &Reader<'_>,
    from: Referrer<'_>,
    spec: &RemoteJwksSpec,
) -> Result<(JwtKeys, Option<Problem>), Problem> {
    let (location, problem) = match (&spec.backend_ref, &spec.path, &spec.url) {
        (Some(reference), Some(path), None) => {
            let path = self::path(path)?;
            let (target, problem) = reader.follow(from, reference.into());
            let problem = problem.map(|problem| problem.under("backendRef"));
            (JwksLocation::Backend { target, path }, problem)
        }
        (None, None, Some(url)) => self::url(reader, from, url)?,
        _ => {
            let message = "set either backendRef with path, or url";
            return Err(invalid("", message));
        }
    };
    let cache = spec.cache_duration.as_deref().map(cache).transpose()?;
    Ok((JwtKeys::Remote { location, cache }, problem))
}

fn path(text: &str) -> Result<String, Problem> {
    let whole = text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
    if whole {
        return Ok(text.to_owned());
    }
    let message = format!("`{text}` is not a path: start it with `/`, without spaces and fragment");
    Err(invalid("path", message))
}

/// A URL of keys. One that leads to a Service of another namespace needs a ReferenceGrant, as a
/// reference to the Service does, and is not fetched without it.
fn url(
    reader: &Reader<'_>,
    from: Referrer<'_>,
    text: &str,
) -> Result<(JwksLocation, Option<Problem>), Problem> {
    let uri: Option<Uri> = text.parse().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    external_host::check_url_host(reader, host).map_err(|error| invalid("url", error))?;
    check_scheme(text, uri.as_ref(), host)?;
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let permitted = if is_address {
        Ok(())
    } else {
        let name = Hostname::parse_exact(&host.to_ascii_lowercase());
        let name = name.map_err(|error| invalid("url", error))?;
        external_host::check_service(reader, from, &name)
    };
    let Err(problem) = permitted else {
        return Ok((JwksLocation::Url(text.to_owned()), None));
    };
    let target = Target::Invalid {
        why: InvalidBackend::NotPermitted,
        // Without its query, which may contain a secret.
        reference: host.to_owned(),
    };
    let path = uri.as_ref().map_or("/", Uri::path).to_owned();
    let location = JwksLocation::Backend { target, path };
    Ok((location, Some(problem.under("url"))))
}

/// An attacker who can change keys in transit can forge tokens, so plain text is allowed only inside the
/// cluster or the machine.
fn check_scheme(text: &str, uri: Option<&Uri>, host: &str) -> Result<(), Problem> {
    let local = host.strip_suffix(".cluster.local").unwrap_or(host);
    let near =
        ["localhost", "127.0.0.1", "[::1]"].contains(&host) || local.strip_suffix(".svc").is_some();
    let plain = !text.contains(['@', '#']);
    match uri.and_then(Uri::scheme_str) {
        Some("https") if plain => Ok(()),
        Some("http") if plain && near => Ok(()),
        _ => {
            let message = format!(
                "`{text}` cannot be trusted with keys: use https, or http to localhost or to a \
                 name that ends in .svc or .svc.cluster.local"
            );
            Err(invalid("url", message))
        }
    }
}

fn cache(text: &str) -> Result<Duration, Problem> {
    let bounds = SHORTEST_CACHE..=LONGEST_CACHE;
    bounded(text, "cacheDuration", &bounds, "use 1m to 24h")
}

fn clock_skew(text: &str) -> Result<Duration, Problem> {
    let bounds = Duration::ZERO..=LARGEST_CLOCK_SKEW;
    bounded(text, "clockSkew", &bounds, "use at most 5m")
}

fn bounded(
    text: &str,
    field: &str,
    bounds: &RangeInclusive<Duration>,
    advice: &str,
) -> Result<Duration, Problem> {
    let parsed = duration(text, field).map_err(|problem| Problem {
        reason: Reason::Invalid,
        ..problem
    })?;
    if bounds.contains(&parsed.0) {
        return Ok(parsed.0);
    }
    Err(invalid(
        field,
        format!("{parsed} is out of bounds: {advice}"),
    ))
}

pub(crate) fn sources(spec: &JwtFromSpec) -> Result<Vec<JwtSource>, Problem> {
    let header = spec.header.as_ref().map(header).transpose()?;
    let query = spec.query.clone().map(JwtSource::Query);
    let cookie = spec.cookie.clone().map(JwtSource::Cookie);
    Ok(header.into_iter().chain(query).chain(cookie).collect())
}

pub(crate) fn header(spec: &JwtHeaderSpec) -> Result<JwtSource, Problem> {
    let name = HeaderName::from_bytes(spec.name.as_bytes()).map_err(|_| {
        let message = format!("`{}` is not a header name", spec.name);
        invalid("header.name", message)
    })?;
    let usual = if name == AUTHORIZATION { "Bearer " } else { "" };
    let prefix = spec.prefix.clone().unwrap_or_else(|| usual.to_owned());
    Ok(JwtSource::Header { name, prefix })
}

fn claim(spec: &ClaimHeaderSpec) -> Result<ClaimHeader, Problem> {
    let header = header_edit::name(&spec.header).map_err(|problem| Problem {
        reason: Reason::Invalid,
        ..problem.under("header")
    })?;
    Ok(ClaimHeader {
        claim: spec.claim.clone(),
        header,
    })
}

/// A realm becomes a quoted string.
pub(crate) fn realm(text: &str) -> Result<String, Problem> {
    let plain = |b: u8| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\';
    if text.bytes().all(plain) {
        return Ok(text.to_owned());
    }
    let message =
        "has quotes, backslashes or characters that are not printable ASCII: leave them out";
    Err(invalid("realm", message))
}

fn invalid(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Invalid, field, message)
}

const SHORTEST_CACHE: Duration = Duration::from_mins(1);
const LONGEST_CACHE: Duration = Duration::from_hours(24);

/// "Usually no more than a few minutes" (RFC 7519 section 4.1.4): above that, an expired token
/// would be worth stealing.
const LARGEST_CLOCK_SKEW: Duration = Duration::from_mins(5);
