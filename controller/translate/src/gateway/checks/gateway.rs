//! Gateway and ListenerSet.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::gateway_tls::tls;
use super::listener::{domain_prefixed, listeners, option_value, selector, values};
use crate::files::check::Check;
use crate::files::finding::Reason;
use crate::files::syntax;
use crate::gateway::api::{
    AllowedListeners, Gateway, GatewayAddress, GatewayInfrastructure, ListenerSet,
    ROUTABLE_IN_CLUSTER,
};
use crate::objects::admission::{Admissible, guarded};
use crate::objects::checks::reference;

impl Admissible for Gateway {
    const READS_STATUS: bool = true;
    const UNREAD: &'static [&'static str] = &["status"];

    fn may_restrict_access(field: &[&str]) -> bool {
        guarded(&["spec.tls.frontend"], field)
    }

    fn check(&self, check: &mut Check) {
        check.field("spec", |check| {
            let class = Some(self.spec.gateway_class_name.as_str());
            check.fits_field("gatewayClassName", class, syntax::object_name);
            listeners(check, &self.spec.listeners);
            check.field("allowedListeners", |check| {
                allowed_listeners(check, &self.spec.allowed_listeners);
            });
            if let Some(given) = &self.spec.tls {
                check.field("tls", |check| tls(check, given));
            }
            addresses(check, &self.spec.addresses);
            if let Some(given) = &self.spec.infrastructure {
                check.field("infrastructure", |check| infrastructure(check, given));
            }
        });
    }
}

impl Admissible for ListenerSet {
    const READS_STATUS: bool = true;
    const UNREAD: &'static [&'static str] = &["status"];

    fn check(&self, check: &mut Check) {
        check.field("spec", |check| {
            check.field("parentRef", |check| {
                let parent = &self.spec.parent_ref;
                reference::group_and_kind(check, &parent.group, &parent.kind);
                check.fits_field("name", Some(&parent.name), syntax::object_name);
                check.fits_field("namespace", parent.namespace.as_deref(), syntax::label);
            });
            listeners(check, &self.spec.listeners);
        });
    }
}

fn allowed_listeners(check: &mut Check, allowed: &AllowedListeners) {
    check.field("namespaces", |check| {
        let given = &allowed.namespaces;
        selector(check, given.from, given.selector.as_ref());
    });
}

fn addresses(check: &mut Check, addresses: &[GatewayAddress]) {
    check.at_most("addresses", addresses.len(), MAX_ADDRESSES);
    check.distinct("addresses", addresses, "type and value", |address| {
        let known = matches!(address.kind.as_str(), "IPAddress" | "Hostname");
        (known && !address.value.is_empty()).then_some((&address.kind, &address.value))
    });
    check.each("addresses", addresses, |check, address| {
        let value = Some(address.value.as_str()).filter(|value| !value.is_empty());
        match address.kind.as_str() {
            "IPAddress" => check.fits_field("value", value, ip_address),
            "Hostname" => check.fits_field("value", value, syntax::hostname),
            "NamedAddress" => check.fits_field("value", value, named_address),
            other => {
                check.fits_field("type", Some(other), domain_prefixed);
                check.fits_field("value", value, named_address);
            }
        }
        let routability = address.routability.as_str();
        check.fits_field("routability", Some(routability), self::routability);
    });
}

/// The routability of an address. Whether it is available is reported in the Gateway's status.
fn routability(text: &str) -> syntax::Verdict {
    if matches!(text, "" | ROUTABLE_IN_CLUSTER) {
        return Ok(());
    }
    syntax::length(text, 0, MAX_ADDRESS)?;
    let is_ours_to_name = |(domain, path): (&str, &str)| {
        let is_reserved = domain == "k8s.io" || domain.ends_with(".k8s.io");
        syntax::subdomain(domain).is_ok() && !path.is_empty() && !is_reserved
    };
    if text.split_once('/').is_some_and(is_ours_to_name) {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a routability: write Cluster, or one with a domain other than k8s.io, such as \
         example.com/vpc"
    ))
}

fn infrastructure(check: &mut Check, infrastructure: &GatewayInfrastructure) {
    check.at_most("labels", infrastructure.labels.len(), MAX_LABELS);
    check.at_most(
        "annotations",
        infrastructure.annotations.len(),
        MAX_ANNOTATIONS,
    );
    keys(check, "labels", &infrastructure.labels);
    keys(check, "annotations", &infrastructure.annotations);
    values(check, "labels", &infrastructure.labels, syntax::label_value);
    values(
        check,
        "annotations",
        &infrastructure.annotations,
        option_value,
    );
    if let Some(parameters) = &infrastructure.parameters_ref {
        check.field("parametersRef", |check| {
            reference::group_and_kind(check, &parameters.group, &parameters.kind);
            check.fits_field("name", Some(&parameters.name), syntax::object_name);
        });
    }
}

fn keys(check: &mut Check, name: &'static str, entries: &BTreeMap<String, String>) {
    check.field(name, |check| {
        for key in entries.keys() {
            if let Err(why) = syntax::qualified(key) {
                check.entry(key, |check| check.refuse_for(Reason::Invalid, why));
            }
        }
    });
}

/// An address of an implementation-specific type.
fn named_address(text: &str) -> syntax::Verdict {
    syntax::length(text, 0, MAX_ADDRESS)
}

fn ip_address(text: &str) -> syntax::Verdict {
    let parsed = text.parse::<IpAddr>().map(drop);
    parsed.map_err(|_| format!("`{text}` is not an IP address: write one, or type: Hostname"))
}

const MAX_ADDRESSES: usize = 16;
const MAX_ADDRESS: usize = 253;
const MAX_LABELS: usize = 8;
const MAX_ANNOTATIONS: usize = 16;
