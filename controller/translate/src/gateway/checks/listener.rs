//! Listeners, of a Gateway or of a ListenerSet.

use std::collections::BTreeMap;

use crate::files::check::Check;
use crate::files::syntax;
use crate::gateway::api::{AllowedRoutes, FromNamespaces, Listener, ListenerTls, TlsMode};
use crate::objects::api::LabelSelector;
use crate::objects::checks::reference;
use crate::route::checks::filter;

/// The listeners of a Gateway or ListenerSet.
pub(crate) fn listeners(check: &mut Check, listeners: &[Listener]) {
    if listeners.is_empty() {
        check.missing("listeners", "is required: at least one listener is needed");
    }
    check.at_most("listeners", listeners.len(), MAX_LISTENERS);
    check.distinct("listeners", listeners, "name", |listener| {
        Some(&listener.name)
    });
    check.distinct(
        "listeners",
        listeners,
        "port, protocol and hostname",
        |listener| Some((listener.port, &listener.protocol, &listener.hostname)),
    );
    check.each("listeners", listeners, listener);
}

fn listener(check: &mut Check, listener: &Listener) {
    check.fits_field("name", Some(&listener.name), syntax::subdomain);
    check.fits_field("protocol", Some(&listener.protocol), protocol);
    let hostname = listener.hostname.as_deref();
    check.fits_field("hostname", hostname, syntax::hostname);
    let protocol = listener.protocol.as_str();
    if hostname.is_some() && matches!(protocol, "TCP" | "UDP") {
        let text =
            format!("applies to HTTP, HTTPS and TLS: remove it; {protocol} has no host names");
        check.field("hostname", |check| check.refuse(text));
    }
    match &listener.tls {
        Some(tls) => check.field("tls", |check| self::tls(check, protocol, tls)),
        None if protocol == "TLS" => {
            check.missing("tls", "is required: protocol TLS needs tls with a mode");
        }
        None => {}
    }
    check.field("allowedRoutes", |check| {
        allowed_routes(check, &listener.allowed_routes);
    });
    if let Some(filters) = &listener.filters {
        check.field("filters", |check| {
            if !matches!(protocol, "HTTP" | "HTTPS") {
                check.refuse(format!(
                    "applies to HTTP and HTTPS: remove it, {protocol} has no requests"
                ));
            }
            filter::of_listener(check, filters);
        });
    }
}

fn tls(check: &mut Check, protocol: &str, tls: &ListenerTls) {
    if matches!(protocol, "HTTP" | "TCP" | "UDP") {
        check.refuse(format!(
            "applies to HTTPS and TLS: remove it, or change the protocol from {protocol}"
        ));
    }
    if protocol == "HTTPS" && tls.mode != TlsMode::Terminate {
        let text = "must be Terminate for HTTPS: use protocol TLS to pass TLS through";
        check.field("mode", |check| check.refuse(text));
    }
    let bare = tls.certificate_refs.is_empty() && tls.options.is_empty();
    if tls.mode == TlsMode::Terminate && bare {
        check.missing(
            "certificateRefs",
            "is required: to terminate TLS, name a Secret with the certificate",
        );
    }
    check.at_most(
        "certificateRefs",
        tls.certificate_refs.len(),
        MAX_CERTIFICATES,
    );
    check.each("certificateRefs", &tls.certificate_refs, reference::secret);
    check.at_most("options", tls.options.len(), MAX_OPTIONS);
    values(check, "options", &tls.options, option_value);
}

fn allowed_routes(check: &mut Check, allowed: &AllowedRoutes) {
    check.at_most("kinds", allowed.kinds.len(), MAX_KINDS);
    check.each("kinds", &allowed.kinds, |check, kind| {
        reference::group_and_kind(check, &kind.group, &kind.kind);
    });
    check.field("namespaces", |check| {
        let given = &allowed.namespaces;
        if given.from == FromNamespaces::None {
            check.field("from", |check| {
                check.refuse_all_but(&["All", "Selector", "Same"]);
            });
        }
        selector(check, given.from, given.selector.as_ref());
    });
}

/// Whether a selector is allowed with `from`.
pub(crate) fn selector(check: &mut Check, from: FromNamespaces, selector: Option<&LabelSelector>) {
    match (from, selector) {
        (FromNamespaces::Selector, None) => {
            check.field("from", |check| {
                check.warn("Selector needs a selector: without one, no namespace is allowed");
            });
        }
        (FromNamespaces::All | FromNamespaces::Same, Some(_)) => {
            check.field("selector", |check| {
                check.warn("has no effect: it needs `from: Selector`");
            });
        }
        _ => {}
    }
}

/// The values of a mapping.
pub(crate) fn values(
    check: &mut Check,
    name: &'static str,
    entries: &BTreeMap<String, String>,
    form: fn(&str) -> syntax::Verdict,
) {
    check.field(name, |check| {
        for (key, value) in entries {
            check.entry(key, |check| check.fits(value, form));
        }
    });
}

/// The value of an annotation or of an option.
pub(crate) fn option_value(text: &str) -> syntax::Verdict {
    syntax::length(text, 0, MAX_VALUE)
}

/// A protocol is a plain word, or a domain-prefixed name.
fn protocol(text: &str) -> syntax::Verdict {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_word = !text.is_empty() && text.len() <= 255 && text.chars().all(word);
    if (is_word && !text.starts_with('-') && !text.ends_with('-')) || domain_prefixed(text).is_ok()
    {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a protocol: use HTTP, HTTPS, TLS, TCP or UDP"
    ))
}

pub(crate) fn domain_prefixed(text: &str) -> syntax::Verdict {
    let valid = text
        .split_once('/')
        .is_some_and(|(domain, rest)| syntax::subdomain(domain).is_ok() && !rest.is_empty());
    if valid {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a type: use IPAddress, Hostname, or one with a domain such as example.com/x"
    ))
}

const MAX_LISTENERS: usize = 64;
const MAX_CERTIFICATES: usize = 64;
const MAX_OPTIONS: usize = 16;
const MAX_KINDS: usize = 8;
const MAX_VALUE: usize = 4096;
