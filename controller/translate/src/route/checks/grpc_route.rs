//! GRPCRoute.

use super::{filter, header_match, rules, session};
use crate::files::check::Check;
use crate::files::syntax;
use crate::objects::admission::Admissible;
use crate::objects::checks::reference;
use crate::route::api::{
    GrpcMethodMatch, GrpcRoute, GrpcRouteMatch, GrpcRouteRule, ValueMatchType,
};

impl Admissible for GrpcRoute {
    fn check(&self, check: &mut Check) {
        check.field("spec", |check| {
            let spec = &self.spec;
            reference::parents(check, &spec.parent_refs);
            rules::hostnames(check, &spec.hostnames, MAX_HOSTNAMES);
            rules::bounds(check, &spec.rules);
            check.each("rules", &spec.rules, rule);
        });
    }
}

impl rules::Rule for GrpcRouteRule {
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn matches(&self) -> usize {
        self.matches.len()
    }
}

fn rule(check: &mut Check, rule: &GrpcRouteRule) {
    check.each("matches", &rule.matches, a_match);
    rules::filters_and_backends(check, &rule.filters, &rule.backend_refs, &filter::GRPC);
    if let Some(given) = &rule.session_persistence {
        check.field("sessionPersistence", |check| session::session(check, given));
    }
}

fn a_match(check: &mut Check, given: &GrpcRouteMatch) {
    if let Some(given) = &given.method {
        check.field("method", |check| method(check, given));
    }
    header_match::headers(check, &given.headers);
}

fn method(check: &mut Check, given: &GrpcMethodMatch) {
    header_match::match_type(check, given.kind);
    let (service, method) = (given.service.as_deref(), given.method.as_deref());
    if service.is_none() && method.is_none() {
        check.refuse("has neither service nor method: set one of them, or leave method out");
    }
    // The status of the rule reports invalid regular expressions.
    let (service_form, method_form): (SyntaxCheck, SyntaxCheck) = match given.kind {
        ValueMatchType::Exact => (service_name, method_name),
        ValueMatchType::RegularExpression | ValueMatchType::Unknown => (pattern, pattern),
    };
    check.fits_field("service", service, service_form);
    check.fits_field("method", method, method_form);
}

type SyntaxCheck = fn(&str) -> syntax::Verdict;

fn pattern(text: &str) -> syntax::Verdict {
    syntax::length(text, 0, MAX_METHOD)
}

fn service_name(text: &str) -> syntax::Verdict {
    pattern(text)?;
    // Gateway API allows a leading dot, as in absolute protobuf names.
    let relative = text.strip_prefix('.').unwrap_or(text);
    if relative.split('.').all(is_identifier) {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a gRPC service: use its full name such as `helloworld.Greeter`, without \
         slashes"
    ))
}

fn method_name(text: &str) -> syntax::Verdict {
    pattern(text)?;
    if is_identifier(text) {
        return Ok(());
    }
    Err(format!(
        "`{text}` is not a gRPC method: use its name such as `SayHello`, without slashes"
    ))
}

fn is_identifier(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| inner(c) && !c.is_ascii_digit()) && text.chars().all(inner)
}

const MAX_HOSTNAMES: usize = 16;
const MAX_METHOD: usize = 1024;
