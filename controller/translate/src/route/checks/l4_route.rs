//! TLSRoute, TCPRoute and UDPRoute.

use super::rules;
use crate::files::check::Check;
use crate::files::syntax;
use crate::objects::admission::Admissible;
use crate::objects::checks::reference;
use crate::route::api::{L4RouteRule, L4RouteSpec, TcpRoute, TlsRoute, UdpRoute};

impl Admissible for TlsRoute {
    fn check(&self, check: &mut Check) {
        check.field("spec", |check| {
            let spec = &self.spec;
            reference::parents(check, &spec.parent_refs);
            if spec.hostnames.is_empty() {
                check.missing("hostnames", "is required: set at least one SNI name");
            }
            rules::hostnames(check, &spec.hostnames, MAX_SNI_NAMES);
            rules(check, &spec.rules);
        });
    }
}

impl Admissible for TcpRoute {
    fn check(&self, check: &mut Check) {
        check.field("spec", |check| spec(check, &self.spec));
    }
}

impl Admissible for UdpRoute {
    fn check(&self, check: &mut Check) {
        check.field("spec", |check| spec(check, &self.spec));
    }
}

fn spec(check: &mut Check, spec: &L4RouteSpec) {
    reference::parents(check, &spec.parent_refs);
    rules(check, &spec.rules);
}

fn rules(check: &mut Check, rules: &[L4RouteRule]) {
    if rules.is_empty() {
        check.missing("rules", "is required: exactly one rule is needed");
    }
    check.at_most("rules", rules.len(), 1);
    check.each("rules", rules, |check, rule| {
        check.fits_field("name", rule.name.as_deref(), syntax::subdomain);
        if rule.backend_refs.is_empty() {
            check.missing("backendRefs", "is required: at least one backend is needed");
        }
        check.at_most("backendRefs", rule.backend_refs.len(), rules::MAX_BACKENDS);
        check.each("backendRefs", &rule.backend_refs, reference::l4_backend);
    });
}

const MAX_SNI_NAMES: usize = 1024;
