//! Kubernetes' own kinds.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::backend::api::{AddressType, Endpoint, EndpointSlice, SERVICE_NAME_LABEL, Service};
use crate::files::check::Check;
use crate::files::finding::Reason;
use crate::files::syntax;
use crate::objects::admission::Admissible;
use crate::objects::api::{ClusterTrustBundle, ConfigMap, Namespace, Secret};

impl Admissible for Service {
    const UNREAD: &'static [&'static str] = &[
        "spec.allocateLoadBalancerNodePorts",
        "spec.externalIPs",
        "spec.externalName",
        "spec.externalTrafficPolicy",
        "spec.healthCheckNodePort",
        "spec.internalTrafficPolicy",
        "spec.ipFamilies",
        "spec.ipFamilyPolicy",
        "spec.loadBalancerClass",
        "spec.loadBalancerIP",
        "spec.loadBalancerSourceRanges",
        "spec.ports.nodePort",
        "spec.ports.targetPort",
        "spec.publishNotReadyAddresses",
        "spec.selector",
        "spec.sessionAffinityConfig",
    ];

    /// With a digit at its beginning too, which Kubernetes allows since 1.36.
    fn check_name(name: &str) -> Result<(), String> {
        syntax::label(name)
    }

    fn check(&self, check: &mut Check) {
        let spec = &self.spec;
        let portless = spec.kind.as_deref() == Some("ExternalName")
            || spec.cluster_ip.as_deref() == Some("None");
        check.field("spec", |check| {
            if spec.ports.is_empty() && !portless {
                check.missing("ports", "is required: at least one port is needed");
            }
            check.distinct("ports", &spec.ports, "name", |port| {
                Some(&port.name).filter(|name| !name.is_empty())
            });
            check.distinct("ports", &spec.ports, "port and protocol", |port| {
                Some((port.port, port.protocol))
            });
            check.each("ports", &spec.ports, |check, port| {
                if !port.name.is_empty() {
                    check.fits_field("name", Some(&port.name), syntax::label);
                } else if spec.ports.len() > 1 {
                    check.missing("name", "is required: each of several ports needs one");
                }
            });
        });
    }
}

impl Admissible for EndpointSlice {
    const UNREAD: &'static [&'static str] = &[
        "endpoints.deprecatedTopology",
        "endpoints.hostname",
        "endpoints.targetRef",
    ];

    fn check(&self, check: &mut Check) {
        check.at_most("endpoints", self.endpoints.len(), MAX_ENDPOINTS);
        check.each("endpoints", &self.endpoints, |check, endpoint| {
            addresses(check, self.address_type, endpoint);
        });
        check.at_most("ports", self.ports.len(), MAX_PORTS);
        check.distinct("ports", &self.ports, "name", |port| Some(&port.name));
        if self.metadata.labels.get(SERVICE_NAME_LABEL).is_none() {
            check.field("metadata", |check| {
                check.field("labels", |check| {
                    let text = format!("has no {SERVICE_NAME_LABEL}: the slice serves no Service");
                    check.warn(text);
                });
            });
        }
    }
}

fn addresses(check: &mut Check, kind: AddressType, endpoint: &Endpoint) {
    if endpoint.addresses.is_empty() {
        check.missing("addresses", "is required: at least one address is needed");
    }
    check.at_most("addresses", endpoint.addresses.len(), MAX_ADDRESSES);
    check.each("addresses", &endpoint.addresses, |check, address| {
        let (valid, expected) = match kind {
            AddressType::IPv4 => (address.parse::<Ipv4Addr>().is_ok(), "an IPv4 address"),
            AddressType::IPv6 => (address.parse::<Ipv6Addr>().is_ok(), "an IPv6 address"),
            AddressType::Fqdn => (syntax::subdomain(address).is_ok(), "a DNS name"),
        };
        if !valid {
            check.refuse(format!(
                "`{address}` is not {expected}, as addressType requires"
            ));
        }
    });
}

impl Admissible for Secret {
    const SECRET: bool = true;
    const UNREAD: &'static [&'static str] = &["immutable"];

    fn check(&self, check: &mut Check) {
        data_keys(check, "data", &self.data);
        data_keys(check, "stringData", &self.string_data);
        if self.kind.as_deref() == Some("kubernetes.io/tls") {
            for key in ["tls.crt", "tls.key"] {
                if self.entry(key).is_none() {
                    let text = "is required: a Secret of type kubernetes.io/tls needs it";
                    check.field("data", |check| {
                        check.entry(key, |check| check.refuse_for(Reason::Required, text));
                    });
                }
            }
        }
    }

    fn forget_unread(&mut self) {
        self.keep_read_parts();
    }
}

impl Admissible for ConfigMap {
    const SECRET: bool = true;
    const UNREAD: &'static [&'static str] = &["immutable"];

    fn check(&self, check: &mut Check) {
        data_keys(check, "data", &self.data);
        data_keys(check, "binaryData", &self.binary_data);
        for key in self
            .binary_data
            .keys()
            .filter(|key| self.data.contains_key(*key))
        {
            let text = "is in data too: keep one of them";
            check.field("binaryData", |check| {
                check.entry(key, |check| check.refuse_for(Reason::Duplicate, text));
            });
        }
    }

    fn forget_unread(&mut self) {
        self.keep_read_parts();
    }
}

fn data_keys<T>(check: &mut Check, field: &'static str, entries: &BTreeMap<String, T>) {
    check.field(field, |check| {
        for key in entries.keys() {
            if let Err(why) = syntax::data_key(key) {
                check.entry(key, |check| check.refuse(why));
            }
        }
    });
}

impl Admissible for Namespace {
    const UNREAD: &'static [&'static str] = &["spec"];

    fn check_name(name: &str) -> Result<(), String> {
        syntax::label(name)
    }

    fn check(&self, _: &mut Check) {}
}

/// Its certificates are validated where it is referred to.
impl Admissible for ClusterTrustBundle {
    fn check_name(name: &str) -> Result<(), String> {
        // The name begins with that of the signer, with a colon instead of its slash.
        name.split(':').try_for_each(syntax::subdomain)
    }

    fn check(&self, check: &mut Check) {
        let signer = self.spec.signer_name.replace('/', ":");
        let name = &self.metadata.name.name;
        let is_prefixed = name
            .strip_prefix(&signer)
            .is_some_and(|rest| rest.starts_with(':'));
        if !signer.is_empty() && !is_prefixed {
            let text =
                format!("`{name}` does not begin with that of its signer: write `{signer}:…`");
            check.field("metadata", |check| {
                check.field("name", |check| check.refuse(text));
            });
        }
    }
}

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 100;
