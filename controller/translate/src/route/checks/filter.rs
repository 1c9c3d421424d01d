//! Filters of HTTP rules and of their backends.

use crate::files::check::Check;
use crate::files::finding::Reason;
use crate::files::syntax;
use crate::objects::checks::reference;
use crate::route::api::{
    CorsFilter, ExternalAuthFilter, ExternalAuthProtocol, FilterType, Fraction, Header,
    HeaderFilter, HttpRouteFilter, ListenerFilters, LocalObjectReference, MirrorFilter,
    PathModifier, PathModifierType, RedirectFilter, RewriteFilter,
};

/// The filters of one rule or backend, each of one of `types`.
pub(crate) fn filters(check: &mut Check, filters: &[HttpRouteFilter], types: &[&str]) {
    check.at_most("filters", filters.len(), MAX_FILTERS);
    check.distinct("filters", filters, "type", |filter| {
        let once = !matches!(
            filter.kind,
            FilterType::RequestMirror
                | FilterType::ExternalAuth
                | FilterType::ExtensionRef
                | FilterType::Unknown
        );
        once.then_some(filter.kind)
    });
    let has = |kind| filters.iter().any(|filter| filter.kind == kind);
    if has(FilterType::RequestRedirect) && has(FilterType::URLRewrite) {
        let text =
            "has RequestRedirect and URLRewrite: a redirect is never forwarded; keep one of them";
        check.field("filters", |check| check.refuse(text));
    }
    check.each("filters", filters, |check, given| {
        filter(check, given, types);
    });
}

fn filter(check: &mut Check, filter: &HttpRouteFilter, types: &[&str]) {
    let mut known = false;
    check.field("type", |check| {
        known = check.is_value_of(&filter.kind, types);
    });
    if !known {
        return;
    }
    for (field, kind, given) in [
        (
            "requestHeaderModifier",
            FilterType::RequestHeaderModifier,
            filter.request_header_modifier.is_some(),
        ),
        (
            "responseHeaderModifier",
            FilterType::ResponseHeaderModifier,
            filter.response_header_modifier.is_some(),
        ),
        (
            "requestMirror",
            FilterType::RequestMirror,
            filter.request_mirror.is_some(),
        ),
        (
            "requestRedirect",
            FilterType::RequestRedirect,
            filter.request_redirect.is_some(),
        ),
        (
            "urlRewrite",
            FilterType::URLRewrite,
            filter.url_rewrite.is_some(),
        ),
        ("cors", FilterType::Cors, filter.cors.is_some()),
        (
            "externalAuth",
            FilterType::ExternalAuth,
            filter.external_auth.is_some(),
        ),
        (
            "extensionRef",
            FilterType::ExtensionRef,
            filter.extension_ref.is_some(),
        ),
    ] {
        check_presence(check, "type", field, (kind == filter.kind, given));
    }
    details(check, filter);
}

/// A field must be set exactly if the filter's type, or another discriminator, requires it.
fn check_presence(
    check: &mut Check,
    chooser: &str,
    field: &'static str,
    (is_required, is_set): (bool, bool),
) {
    match (is_required, is_set) {
        (true, false) => {
            check.missing(field, format!("is required by the filter's {chooser}"));
        }
        (false, true) => check.field(field, |check| {
            check.refuse(format!(
                "does not apply to this {chooser}: change the {chooser}, or remove it"
            ));
        }),
        _ => {}
    }
}

/// The filters of a listener.
pub(crate) fn of_listener(check: &mut Check, filters: &ListenerFilters) {
    check.at_most("requests", filters.requests.len(), MAX_FILTERS);
    check.each("requests", &filters.requests, |check, filter| {
        let mut known = false;
        check.field("type", |check| {
            known = check.is_value_of(&filter.kind, &LISTENER);
        });
        if !known {
            return;
        }
        let (asks, extends) = (&filter.external_auth, &filter.extension_ref);
        for (field, kind, given) in [
            ("externalAuth", FilterType::ExternalAuth, asks.is_some()),
            ("extensionRef", FilterType::ExtensionRef, extends.is_some()),
        ] {
            check_presence(check, "type", field, (kind == filter.kind, given));
        }
        if let Some(given) = asks {
            check.field("externalAuth", |check| external_auth(check, given));
        }
        if let Some(given) = extends {
            check.field("extensionRef", |check| extension(check, given));
        }
    });
}

fn external_auth(check: &mut Check, auth: &ExternalAuthFilter) {
    let mut known = false;
    check.field("protocol", |check| {
        known = check.is_one_of(&["HTTP", "GRPC"]);
    });
    for (field, protocol, given) in [
        ("grpc", ExternalAuthProtocol::Grpc, auth.grpc.is_some()),
        ("http", ExternalAuthProtocol::Http, auth.http.is_some()),
    ] {
        if known {
            let is_required = protocol == auth.protocol;
            check_presence(check, "protocol", field, (is_required, given));
        }
    }
    check.field("backendRef", |check| {
        reference::backend(check, &auth.backend_ref);
    });
    if let Some(given) = &auth.grpc {
        check.field("grpc", |check| {
            names(check, "allowedHeaders", &given.allowed_headers);
        });
    }
    if let Some(given) = &auth.http {
        check.field("http", |check| {
            check.fits_field("path", given.path.as_deref(), |text| {
                syntax::length(text, 0, MAX_PATH)
            });
            names(check, "allowedHeaders", &given.allowed_headers);
            names(
                check,
                "allowedResponseHeaders",
                &given.allowed_response_headers,
            );
        });
    }
}

fn names(check: &mut Check, field: &'static str, names: &[String]) {
    check.at_most(field, names.len(), MAX_AUTH_HEADERS);
    check.distinct(field, names, "name", Some);
}

fn extension(check: &mut Check, reference: &LocalObjectReference) {
    reference::group_and_kind(check, &reference.group, &reference.kind);
    check.fits_field("name", Some(&reference.name), syntax::object_name);
}

fn details(check: &mut Check, filter: &HttpRouteFilter) {
    if let Some(given) = &filter.request_header_modifier {
        check.field("requestHeaderModifier", |check| headers(check, given));
    }
    if let Some(given) = &filter.response_header_modifier {
        check.field("responseHeaderModifier", |check| headers(check, given));
    }
    if let Some(given) = &filter.request_mirror {
        check.field("requestMirror", |check| mirror(check, given));
    }
    if let Some(given) = &filter.request_redirect {
        check.field("requestRedirect", |check| redirect(check, given));
    }
    if let Some(given) = &filter.url_rewrite {
        check.field("urlRewrite", |check| rewrite(check, given));
    }
    if let Some(given) = &filter.cors {
        check.field("cors", |check| cors(check, given));
    }
    if let Some(given) = &filter.extension_ref {
        check.field("extensionRef", |check| extension(check, given));
    }
    if let Some(given) = &filter.external_auth {
        check.field("externalAuth", |check| external_auth(check, given));
    }
}

fn headers(check: &mut Check, filter: &HeaderFilter) {
    for (field, headers) in [("set", &filter.set), ("add", &filter.add)] {
        check.at_most(field, headers.len(), MAX_HEADERS);
        check.distinct(field, headers, "name", |header: &Header| Some(&header.name));
        check.each(field, headers, |check, header| {
            check.fits_field("name", Some(&header.name), syntax::header_name);
            check.fits_field("value", Some(&header.value), syntax::header_value);
        });
    }
    check.at_most("remove", filter.remove.len(), MAX_HEADERS);
    // Any text is accepted here. The status of the rule reports invalid names.
    check.distinct("remove", &filter.remove, "name", Some);
}

fn mirror(check: &mut Check, mirror: &MirrorFilter) {
    check.field("backendRef", |check| {
        reference::backend(check, &mirror.backend_ref);
    });
    if mirror.percent.is_some() && mirror.fraction.is_some() {
        check.refuse("has percent and fraction: keep one of them");
    }
    if let Some(percent) = mirror.percent.filter(|percent| *percent > 100) {
        let text = format!("{percent} is too large: write 0 to 100");
        check.field("percent", |check| check.refuse(text));
    }
    if let Some(Fraction {
        numerator,
        denominator,
    }) = mirror.fraction
    {
        check.field("fraction", |check| {
            if denominator == 0 {
                check.field("denominator", |check| {
                    check.refuse("0 is too small: write at least 1");
                });
            } else if numerator > denominator {
                check.refuse(format!("{numerator}/{denominator} is more than 1"));
            }
        });
    }
}

fn redirect(check: &mut Check, redirect: &RedirectFilter) {
    if redirect
        .scheme
        .as_deref()
        .is_some_and(|scheme| !SCHEMES.contains(&scheme))
    {
        check.field("scheme", |check| check.refuse_all_but(&SCHEMES));
    }
    check.fits_field(
        "hostname",
        redirect.hostname.as_deref(),
        syntax::precise_hostname,
    );
    if let Some(path) = &redirect.path {
        check.field("path", |check| path_modifier(check, path));
    }
    if !REDIRECTS.contains(&redirect.status_code) {
        let text = format!(
            "{} is not one of 301, 302, 303, 307, 308",
            redirect.status_code
        );
        check.field("statusCode", |check| check.refuse(text));
    }
}

fn rewrite(check: &mut Check, rewrite: &RewriteFilter) {
    check.fits_field(
        "hostname",
        rewrite.hostname.as_deref(),
        syntax::precise_hostname,
    );
    if let Some(path) = &rewrite.path {
        check.field("path", |check| path_modifier(check, path));
    }
}

fn path_modifier(check: &mut Check, modifier: &PathModifier) {
    if modifier.kind == PathModifierType::Unknown {
        let allowed = ["ReplaceFullPath", "ReplacePrefixMatch"];
        check.field("type", |check| check.refuse_all_but(&allowed));
        return;
    }
    for (field, kind, given) in [
        (
            "replaceFullPath",
            PathModifierType::ReplaceFullPath,
            modifier.replace_full_path.as_deref(),
        ),
        (
            "replacePrefixMatch",
            PathModifierType::ReplacePrefixMatch,
            modifier.replace_prefix_match.as_deref(),
        ),
    ] {
        match (kind == modifier.kind, given) {
            (true, None) => check.missing(field, "is required by the path's type"),
            (false, Some(_)) => check.field(field, |check| {
                check.refuse("does not apply to this type: change the type, or remove it");
            }),
            (_, given) => {
                check.fits_field(field, given, |text| syntax::length(text, 0, MAX_PATH));
            }
        }
    }
}

fn cors(check: &mut Check, cors: &CorsFilter) {
    check.at_most("allowOrigins", cors.allow_origins.len(), MAX_CORS);
    check.at_most("allowMethods", cors.allow_methods.len(), METHODS.len());
    check.at_most("allowHeaders", cors.allow_headers.len(), MAX_CORS);
    check.at_most("exposeHeaders", cors.expose_headers.len(), MAX_CORS);
    check.each("allowOrigins", &cors.allow_origins, |check, value| {
        check.fits(value, origin);
    });
    check.each("allowMethods", &cors.allow_methods, |check, value| {
        if value != "*" {
            method(check, value);
        }
    });
    for (field, names) in [
        ("allowHeaders", &cors.allow_headers),
        ("exposeHeaders", &cors.expose_headers),
    ] {
        check.each(field, names, |check, name| {
            check.fits(name, syntax::header_name);
        });
    }
    for (field, values) in [
        ("allowOrigins", &cors.allow_origins),
        ("allowMethods", &cors.allow_methods),
        ("allowHeaders", &cors.allow_headers),
        ("exposeHeaders", &cors.expose_headers),
    ] {
        check.distinct(field, values, "value", Some);
    }
    for (field, values) in [
        ("allowOrigins", &cors.allow_origins),
        ("allowMethods", &cors.allow_methods),
        ("allowHeaders", &cors.allow_headers),
    ] {
        if values.len() > 1 && values.iter().any(|value| value == "*") {
            let text = "has `*` and others: `*` includes all others, so keep it alone";
            check.field(field, |check| check.refuse(text));
        }
    }
    if cors.max_age == 0 {
        check.field("maxAge", |check| {
            check.refuse("0 is too small: write at least 1 second");
        });
    }
}

/// `*`, or a scheme and a host with optional wildcard and port.
fn origin(text: &str) -> syntax::Verdict {
    syntax::length(text, 1, MAX_ORIGIN)?;
    let wrong = || format!("`{text}` is not an origin such as https://example.com:8443 or `*`");
    if text == "*" {
        return Ok(());
    }
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    let authority = rest.ok_or_else(wrong)?;
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let digits = |port: &str| {
        (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit())
    };
    let label = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name = host.strip_prefix("*.").unwrap_or(host);
    let named = name
        .split('.')
        .all(|part| !part.is_empty() && part.chars().all(label));
    let valid = (host == "*" || named) && port.is_none_or(digits);
    if valid { Ok(()) } else { Err(wrong()) }
}

/// Rejects a method that Gateway API does not define.
pub(crate) fn method(check: &mut Check, given: &str) {
    if !METHODS.contains(&given) {
        check.refuse_all_but(&METHODS);
    }
}

/// Rejects `replacePrefixMatch` in filters of a rule that does not match exactly one prefix.
pub(crate) fn prefix_replaced(check: &mut Check, filters: &[HttpRouteFilter]) {
    check.each("filters", filters, |check, filter| {
        let redirect = filter
            .request_redirect
            .as_ref()
            .and_then(|given| given.path.as_ref());
        let rewrite = filter
            .url_rewrite
            .as_ref()
            .and_then(|given| given.path.as_ref());
        for (name, path) in [("requestRedirect", redirect), ("urlRewrite", rewrite)] {
            if path.is_some_and(|path| path.replace_prefix_match.is_some()) {
                let text = "needs a rule with exactly one match, of type PathPrefix";
                check.field(name, |check| {
                    check.field("path", |check| {
                        check.field("replacePrefixMatch", |check| {
                            check.refuse_for(Reason::Invalid, text);
                        });
                    });
                });
            }
        }
    });
}

const MAX_FILTERS: usize = 16;
const MAX_HEADERS: usize = 16;
const MAX_CORS: usize = 64;
const MAX_AUTH_HEADERS: usize = 64;
const MAX_ORIGIN: usize = 253;
const MAX_PATH: usize = 1024;
const SCHEMES: [&str; 2] = ["http", "https"];
/// The filter types of an HTTPRoute.
pub(crate) const HTTP: [&str; 8] = [
    "RequestHeaderModifier",
    "ResponseHeaderModifier",
    "RequestMirror",
    "RequestRedirect",
    "URLRewrite",
    "CORS",
    "ExternalAuth",
    "ExtensionRef",
];
/// The filter types of a GRPCRoute.
pub(crate) const GRPC: [&str; 4] = [
    "RequestHeaderModifier",
    "ResponseHeaderModifier",
    "RequestMirror",
    "ExtensionRef",
];
/// The types of filters that a listener has.
const LISTENER: [&str; 2] = ["ExternalAuth", "ExtensionRef"];
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];
