//! Our own kinds, validated mostly by their CRDs.

use std::sync::Arc;

use serde_json::{Map, Value};
use xds::model::{ObjectName, Substitution};

use super::answer;
use super::presumed::{
    MAX_TOKEN_SOURCES, presumed_metadata, presumed_targets, presumed_token_sources,
};
use crate::backend::api::Backend;
use crate::files::check::Check;
use crate::files::schema::Schema;
use crate::files::{crd, suggest};
use crate::network;
use crate::objects::admission::{Admissible, guarded};
use crate::objects::checks::reference;
use crate::policy::api::{
    AuthorizationRuleSpec, JwtFromSpec, JwtProviderSpec, NetworksSpec, PathRewriteSpec,
    PolicyStanding, RateLimitRuleSpec, RejectedPolicy, Restrictions, TrafficPolicy,
    TrafficPolicySpec,
};
use crate::policy::expression::Expression;
use crate::policy::{jwks, path_rewrite, settings};
use crate::route::header_edit;

impl Admissible for Backend {
    fn schema() -> Option<&'static Schema> {
        Some(&crd::BACKEND)
    }

    fn may_restrict_access(field: &[&str]) -> bool {
        guarded(&["spec.tls"], field)
    }

    fn check(&self, _: &mut Check) {}
}

impl Admissible for TrafficPolicy {
    const DISPENSABLE: &'static [&'static str] = &[ERROR_PAGES, HEALTH_CHECK, BALANCE];

    fn schema() -> Option<&'static Schema> {
        Some(&crd::TRAFFIC_POLICY)
    }

    /// While an access-restricting policy is invalid, its targets refuse all requests. They are read as
    /// far as possible; an unidentifiable one has no name, and means the whole namespace.
    fn fail_closed(name: &ObjectName, written: &Value) -> Option<Self> {
        let spec = written.get("spec").and_then(Value::as_object);
        let names = |field| spec.is_some_and(|spec| may_have(spec, field, false));
        let overrides = spec.is_some_and(may_override);
        let rewrites_paths = names(PATH_REWRITE);
        let names = Restrictions {
            jwt: names(JWT),
            basic_auth: names(BASIC_AUTH),
            api_keys: names(API_KEYS),
            authorization: names(AUTHORIZATION),
            networks: names(NETWORKS),
            rate_limit: names(RATE_LIMIT),
            respond: names(RESPOND),
            bounds: overrides && names(LIMITS),
            overrides,
        };
        let restricts = Restrictions {
            jwt: spec.is_none_or(|spec| may_have(spec, JWT, true)),
            ..names
        };
        let has_unknown = spec.is_none_or(|spec| spec.keys().any(|name| is_unknown(name)));
        (restricts.any() || rewrites_paths).then(|| Self {
            metadata: presumed_metadata(name, written),
            spec: TrafficPolicySpec {
                target_refs: spec.map(presumed_targets).unwrap_or_default(),
                ..TrafficPolicySpec::default()
            },
            standing: PolicyStanding::Rejected(RejectedPolicy {
                restricts,
                names,
                rewrites_paths,
                has_unknown,
                token_sources: spec.map(presumed_token_sources).unwrap_or_default(),
                last_valid: None,
            }),
        })
    }

    fn duplicate_replacement(&self) -> Option<Self> {
        let restricts = self.restrictions();
        let rewrites_paths = self.rewrites_paths();
        (restricts.any() || rewrites_paths).then(|| Self {
            metadata: self.metadata.clone(),
            spec: TrafficPolicySpec {
                target_refs: self.spec.target_refs.clone(),
                ..TrafficPolicySpec::default()
            },
            standing: PolicyStanding::Rejected(RejectedPolicy {
                restricts,
                names: restricts,
                rewrites_paths,
                has_unknown: matches!(&self.standing, PolicyStanding::Rejected(it) if it.has_unknown),
                token_sources: self.token_sources(),
                last_valid: None,
            }),
        })
    }

    /// Computed from the last valid version and the latest rejected one, never from what stood in for
    /// another: the same version may be rejected repeatedly.
    fn kept_beside(&self, rejected: Option<&Self>) -> Option<Self> {
        let valid = match &self.standing {
            PolicyStanding::Rejected(stand_in) => match stand_in.last_valid.as_deref() {
                Some(valid) => valid,
                // The latest version says most truly what the policy is about.
                None => return rejected.cloned(),
            },
            PolicyStanding::Admitted | PolicyStanding::Kept(_) => self,
        };
        let beside = match rejected.map(|it| (it, &it.standing)) {
            Some((rejected, PolicyStanding::Rejected(later))) => valid.beside(rejected, later),
            // Its mistakes are in what can be left out, but not what it protects.
            Some((rejected, _)) if rejected.restrictions().beyond(valid.restrictions()).any() => {
                rejected.clone()
            }
            _ => valid.clone(),
        };
        (beside != *self).then_some(beside)
    }

    /// Including a field of a policy that may be a newer way to authenticate.
    fn may_restrict_access(field: &[&str]) -> bool {
        match field {
            ["spec", name] => {
                may_mean(name, JWT, true)
                    || may_mean(name, BASIC_AUTH, false)
                    || may_mean(name, API_KEYS, false)
                    || may_mean(name, REQUIRE_ALL, false)
                    || may_mean(name, AUTHORIZATION, false)
                    || may_mean(name, NETWORKS, false)
                    || may_mean(name, RATE_LIMIT, false)
                    || may_mean(name, RESPOND, false)
                    || may_mean(name, PATH_REWRITE, false)
                    || may_mean(name, PRECEDENCE, false)
            }
            _ => guarded(
                &[
                    "spec.jwt",
                    "spec.basicAuth",
                    "spec.apiKeys",
                    "spec.requireAll",
                    "spec.authorization",
                    "spec.networks",
                    "spec.rateLimit",
                    "spec.respond",
                    "spec.pathRewrite",
                ],
                field,
            ),
        }
    }

    /// Rules that the CRD cannot express.
    fn check(&self, check: &mut Check) {
        check.field("spec", |check| {
            if let Some(jwt) = &self.spec.jwt {
                check.field(JWT, |check| {
                    check.each("providers", &jwt.providers, provider);
                });
            }
            if let Some(passwords) = &self.spec.basic_auth {
                check.field(BASIC_AUTH, |check| {
                    check.each("secretRefs", &passwords.secret_refs, reference::secret);
                    check.fits_field("userHeader", passwords.user_header.as_deref(), header);
                });
            }
            if let Some(keys) = &self.spec.api_keys {
                check.field(API_KEYS, |check| {
                    check.each("secretRefs", &keys.secret_refs, reference::secret);
                    check.fits_field("clientHeader", keys.client_header.as_deref(), header);
                });
            }
            if let Some(authorization) = &self.spec.authorization {
                check.field(AUTHORIZATION, |check| {
                    check.each("deny", &authorization.deny, rule);
                    check.each("allow", &authorization.allow, rule);
                });
            }
            if let Some(networks) = &self.spec.networks {
                check.field(NETWORKS, |check| networks_fit(check, networks));
            }
            if let Some(rate_limit) = &self.spec.rate_limit {
                check.field(RATE_LIMIT, |check| {
                    check.each("rules", &rate_limit.rules, rate_limit_rule);
                });
            }
            if let Some(respond) = &self.spec.respond {
                let precedence = settings::precedence(&self.spec);
                check.field(RESPOND, |check| answer::respond(check, respond, precedence));
            }
            let pages = self.spec.error_pages.as_deref().unwrap_or_default();
            check.each(ERROR_PAGES, pages, answer::error_page);
            if let Some(health_check) = &self.spec.health_check {
                check.field(HEALTH_CHECK, |check| answer::expected(check, health_check));
            }
            if let Some(rewrite) = &self.spec.path_rewrite {
                check.field(PATH_REWRITE, |check| path_rewrite(check, rewrite));
            }
        });
    }
}

impl TrafficPolicy {
    /// What is in effect while this version is the last valid one, and a later one is rejected: this, or what
    /// refuses every request if the later one wants to restrict access in a way that this one does not.
    fn beside(&self, rejected: &Self, later: &RejectedPolicy) -> Self {
        let kept = self.aware_of(later);
        if later.names.beyond(self.restrictions()).any() {
            kept.closed_for(rejected, later)
        } else {
            kept
        }
    }

    /// This version, which knows where a later one reads tokens from. Versions may be rejected in turn, and
    /// clients send their tokens where any of them says.
    fn aware_of(&self, later: &RejectedPolicy) -> Self {
        let known = self.later_sources();
        if later.token_sources.iter().all(|it| known.contains(it)) {
            return self.clone();
        }
        let mut sources = later.token_sources.clone();
        let others = known.iter().filter(|it| !later.token_sources.contains(it));
        sources.extend(others.cloned());
        // Those of the latest version are first.
        sources.truncate(MAX_TOKEN_SOURCES);
        Self {
            standing: PolicyStanding::Kept(sources),
            ..self.clone()
        }
    }

    /// Where later versions that were rejected read tokens from.
    fn later_sources(&self) -> &[JwtFromSpec] {
        match &self.standing {
            PolicyStanding::Kept(sources) => sources,
            PolicyStanding::Admitted | PolicyStanding::Rejected(_) => &[],
        }
    }

    /// What stands in for this version while a rejected one wants to restrict access in a way that this one
    /// does not: its targets are to be protected, and would be open. The same stands in for a policy that
    /// had no version before, so a controller that restarts keeps the targets of the rejected version closed.
    fn closed_for(self, rejected: &Self, later: &RejectedPolicy) -> Self {
        let mut target_refs = rejected.spec.target_refs.clone();
        // What this version protects stays closed too, and so does what the later one may mean.
        if self.restrictions().any() || target_refs.is_empty() {
            let own = self.spec.target_refs.iter();
            let own = own.filter(|it| !rejected.spec.target_refs.contains(it));
            target_refs.extend(own.cloned());
        }
        let mut token_sources = self.later_sources().to_vec();
        token_sources.extend(self.token_sources());
        token_sources.truncate(MAX_TOKEN_SOURCES);
        Self {
            metadata: rejected.metadata.clone(),
            spec: TrafficPolicySpec {
                target_refs,
                ..TrafficPolicySpec::default()
            },
            standing: PolicyStanding::Rejected(RejectedPolicy {
                restricts: later.restricts.and(self.restrictions()),
                names: later.names,
                rewrites_paths: later.rewrites_paths || self.rewrites_paths(),
                has_unknown: later.has_unknown,
                token_sources,
                last_valid: Some(Arc::new(self)),
            }),
        }
    }
}

/// Whether a spec has a field, or a probable typo of it; or, if `or_unknown`, a field unlike any
/// known one, which may be a newer way to authenticate.
fn may_have(spec: &Map<String, Value>, field: &str, or_unknown: bool) -> bool {
    spec.keys().any(|name| may_mean(name, field, or_unknown))
}

/// Whether a spec may be of a policy that overrides others: it says so, or nothing that is valid.
fn may_override(spec: &Map<String, Value>) -> bool {
    let mut precedence = { spec.iter() }.filter(|(name, _)| may_mean(name, PRECEDENCE, false));
    precedence.any(|(_, value)| value.as_str() != Some("Defaults"))
}

/// Whether this is the field, or closer to it than to any other; or close to none.
fn may_mean(name: &str, field: &str, or_unknown: bool) -> bool {
    let known = serde_json::to_value(TrafficPolicySpec::default()).unwrap_or_default();
    let known: Vec<&str> = known
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys().map(String::as_str))
        .collect();
    suggest::nearest(name, known).map_or(or_unknown, |meant| meant == field)
}

/// Whether a name is close to that of no field.
fn is_unknown(name: &str) -> bool {
    may_mean(name, JWT, true) && !may_mean(name, JWT, false)
}

const JWT: &str = "jwt";
const BASIC_AUTH: &str = "basicAuth";
const API_KEYS: &str = "apiKeys";
const REQUIRE_ALL: &str = "requireAll";
const AUTHORIZATION: &str = "authorization";
const NETWORKS: &str = "networks";
const RATE_LIMIT: &str = "rateLimit";
const RESPOND: &str = "respond";
const ERROR_PAGES: &str = "errorPages";
const HEALTH_CHECK: &str = "healthCheck";
const BALANCE: &str = "balance";
const LIMITS: &str = "limits";
const PATH_REWRITE: &str = "pathRewrite";
const PRECEDENCE: &str = "precedence";

fn rule(check: &mut Check, rule: &AuthorizationRuleSpec) {
    condition(check, &rule.when);
}

fn rate_limit_rule(check: &mut Check, rule: &RateLimitRuleSpec) {
    if let Some(when) = &rule.when {
        condition(check, when);
    }
}

fn condition(check: &mut Check, when: &str) {
    check.field("when", |check| match Expression::parse(when) {
        Ok(expression) => {
            for warning in expression.warnings() {
                check.warn(warning);
            }
        }
        Err(why) => check.refuse(why.to_string()),
    });
}

fn networks_fit(check: &mut Check, networks: &NetworksSpec) {
    for (name, texts) in [("deny", &networks.deny), ("allow", &networks.allow)] {
        check.each(name, texts.as_deref().unwrap_or_default(), |check, text| {
            if let Err(why) = network::parse(text) {
                check.refuse(why.to_string());
            } else if name == "deny" && network::is_everything(text) {
                check.warn("denies every address of its family");
            }
        });
    }
}

fn path_rewrite(check: &mut Check, rewrite: &PathRewriteSpec) {
    check.fits_field(
        "pattern",
        Some(&rewrite.pattern),
        path_rewrite::check_pattern,
    );
    check.field("substitution", |check| {
        match Substitution::parse(&rewrite.substitution) {
            Ok(substitution) => {
                if let Some(warning) = path_rewrite::warning(&substitution) {
                    check.warn(warning);
                }
            }
            Err(why) => check.refuse(why.to_string()),
        }
    });
}

/// Whether a header may be set.
fn header(text: &str) -> Result<(), String> {
    let name = header_edit::name(text);
    name.map(drop).map_err(|problem| problem.message)
}

fn provider(check: &mut Check, provider: &JwtProviderSpec) {
    check.field("jwks", |check| {
        check.fits_field("inline", provider.jwks.inline.as_deref(), jwks::check);
    });
    check.each(
        "claimsToHeaders",
        &provider.claims_to_headers,
        |check, claim| {
            check.fits_field("header", Some(&claim.header), header);
        },
    );
}
