//! Our `TrafficPolicy`: settings that Gateway API has no field for.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xds::limits_table;
use xds::model::ObjectName;
use xds::model::limits::{self, LimitKind};

use super::{
    ApiKeysSpec, AuthorizationSpec, BalanceSpec, BasicAuthSpec, ErrorPageSpec, HealthCheckSpec,
    JwtFromSpec, JwtSpec, NetworksSpec, PathRewriteSpec, RateLimitSpec, RespondSpec,
};
use crate::objects::api::ObjectMeta;
use crate::objects::kinds::ObjectKind;
use crate::objects::object_ref::ObjectRef;

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct TrafficPolicy {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: TrafficPolicySpec,
    /// What admission did with the versions of the policy; nothing that can be written.
    #[serde(skip)]
    pub standing: PolicyStanding,
}

/// What admission did with the versions of a policy.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum PolicyStanding {
    /// The latest version is valid.
    #[default]
    Admitted,
    /// This version stays in effect, since a later one was rejected, which reads tokens from here.
    Kept(Vec<JwtFromSpec>),
    /// Every request of the targets is refused, or answered with an error: no version was ever valid, or the last valid one does not
    /// restrict access as the latest one would. Targets are known as far as they could be read.
    Rejected(RejectedPolicy),
}

/// What is known about a policy whose latest version is rejected, and no version of which is in effect.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RejectedPolicy {
    /// The ways in which it may restrict access; none only if it rewrites paths.
    pub restricts: Restrictions,
    /// Those of them that it names, if maybe with a typo; an unknown field is none.
    pub names: Restrictions,
    /// Whether it rewrites paths, which backends expect.
    pub rewrites_paths: bool,
    /// Whether it has a field of an unknown name, which may restrict access in any way.
    pub has_unknown: bool,
    /// Where it reads tokens from.
    pub token_sources: Vec<JwtFromSpec>,
    /// The last valid version, if one is known. It returns once the latest version restricts access no more
    /// than it does, even if that is rejected too.
    pub last_valid: Option<Arc<TrafficPolicy>>,
}

/// The fields of a policy that restrict access.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a set, with a field for each way to restrict"
)]
pub struct Restrictions {
    pub jwt: bool,
    pub basic_auth: bool,
    pub api_keys: bool,
    pub authorization: bool,
    pub networks: bool,
    pub rate_limit: bool,
    /// Answers of the gateway, which spare backends.
    pub respond: bool,
    /// Limits, which those of nearer targets stay within.
    pub bounds: bool,
    /// Whether nearer targets cannot replace them. It is no restriction by itself.
    pub overrides: bool,
}

impl Restrictions {
    /// Whether there is one.
    #[must_use]
    pub fn any(self) -> bool {
        self.jwt
            || self.basic_auth
            || self.api_keys
            || self.authorization
            || self.networks
            || self.rate_limit
            || self.respond
            || self.bounds
    }

    /// Those that others lack. What nearer targets can replace is not what they cannot.
    pub(crate) fn beyond(self, others: Self) -> Self {
        if self.overrides && !others.overrides {
            return self;
        }
        Self {
            jwt: self.jwt && !others.jwt,
            basic_auth: self.basic_auth && !others.basic_auth,
            api_keys: self.api_keys && !others.api_keys,
            authorization: self.authorization && !others.authorization,
            networks: self.networks && !others.networks,
            rate_limit: self.rate_limit && !others.rate_limit,
            respond: self.respond && !others.respond,
            bounds: self.bounds && !others.bounds,
            overrides: self.overrides,
        }
    }

    /// Those of both.
    pub(crate) fn and(self, others: Self) -> Self {
        Self {
            jwt: self.jwt || others.jwt,
            basic_auth: self.basic_auth || others.basic_auth,
            api_keys: self.api_keys || others.api_keys,
            authorization: self.authorization || others.authorization,
            networks: self.networks || others.networks,
            rate_limit: self.rate_limit || others.rate_limit,
            respond: self.respond || others.respond,
            bounds: self.bounds || others.bounds,
            overrides: self.overrides || others.overrides,
        }
    }
}

impl TrafficPolicy {
    /// The ways in which the policy restricts access, or may.
    #[must_use]
    pub fn restrictions(&self) -> Restrictions {
        match &self.standing {
            PolicyStanding::Rejected(rejected) => rejected.restricts,
            PolicyStanding::Admitted | PolicyStanding::Kept(_) => Restrictions {
                jwt: self.spec.jwt.is_some(),
                basic_auth: self.spec.basic_auth.is_some(),
                api_keys: self.spec.api_keys.is_some(),
                authorization: self.spec.authorization.is_some(),
                networks: self.spec.networks.is_some(),
                rate_limit: self.spec.rate_limit.is_some(),
                respond: self.spec.respond.is_some(),
                bounds: self.overrides() && self.spec.limits.is_some(),
                overrides: self.overrides(),
            },
        }
    }

    /// Whether the policy rewrites paths, or was meant to.
    #[must_use]
    pub fn rewrites_paths(&self) -> bool {
        match &self.standing {
            PolicyStanding::Rejected(rejected) => rejected.rewrites_paths,
            PolicyStanding::Admitted | PolicyStanding::Kept(_) => self.spec.path_rewrite.is_some(),
        }
    }

    /// Whether nearer targets can only tighten what it sets.
    fn overrides(&self) -> bool {
        self.spec.precedence == Some(PrecedenceSpec::Overrides)
    }

    /// Where its tokens are read from.
    #[must_use]
    pub fn token_sources(&self) -> Vec<JwtFromSpec> {
        let providers = self.spec.jwt.iter().flat_map(|jwt| &jwt.providers);
        let tokens = providers.map(|provider| &provider.from);
        let keys = self.spec.api_keys.iter();
        let keys = keys.filter_map(|keys| keys.from.as_ref());
        tokens.chain(keys).cloned().collect()
    }
}

/// Settings and targets of a policy. An omitted field is inherited from the next wider target.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrafficPolicySpec {
    /// Targets, in the policy's namespace.
    #[serde(default)]
    pub target_refs: Vec<PolicyTargetReference>,
    /// Whether nearer targets can only tighten what the policy sets.
    #[serde(default)]
    pub precedence: Option<PrecedenceSpec>,
    #[serde(default)]
    pub access_log: Option<AccessLogSpec>,
    /// Tokens that requests must or may carry.
    #[serde(default)]
    pub jwt: Option<JwtSpec>,
    /// Passwords that requests must carry.
    #[serde(default)]
    pub basic_auth: Option<BasicAuthSpec>,
    /// API keys that requests must carry.
    #[serde(default)]
    pub api_keys: Option<ApiKeysSpec>,
    /// Whether a request needs a credential of each kind that the policy has, instead of one of them.
    #[serde(default)]
    pub require_all: Option<bool>,
    /// Which requests are allowed.
    #[serde(default)]
    pub authorization: Option<AuthorizationSpec>,
    /// Which client addresses are accepted.
    #[serde(default)]
    pub networks: Option<NetworksSpec>,
    /// How many requests pass.
    #[serde(default)]
    pub rate_limit: Option<RateLimitSpec>,
    /// What the gateway answers in the place of backends.
    #[serde(default)]
    pub respond: Option<RespondSpec>,
    /// Pages in the place of the contents of errors.
    #[serde(default)]
    pub error_pages: Option<Vec<ErrorPageSpec>>,
    /// How paths are rewritten for backends.
    #[serde(default)]
    pub path_rewrite: Option<PathRewriteSpec>,
    #[serde(default)]
    pub limits: Option<LimitsSpec>,
    /// Number of trusted hops in front of the gateway; excludes `trustedSources`.
    #[serde(default)]
    pub trusted_hops: Option<NonZeroU32>,
    /// Networks of trusted peers; excludes `trustedHops`.
    #[serde(default)]
    pub trusted_sources: Option<Vec<String>>,
    #[serde(default)]
    pub proxy_protocol: Option<ProxyProtocolSpec>,
    /// How paths are normalised.
    #[serde(default)]
    pub path_options: Option<PathOptionsSpec>,
    /// Where load balancers ask whether a proxy takes requests.
    #[serde(default)]
    pub health_path: Option<String>,
    /// The limit of concurrent retries.
    #[serde(default)]
    pub retry_budget: Option<RetryBudgetSpec>,
    /// When an endpoint is ejected.
    #[serde(default)]
    pub ejection: Option<EjectionSpec>,
    /// What endpoints are asked, to find out whether they can serve.
    #[serde(default)]
    pub health_check: Option<HealthCheckSpec>,
    /// How requests are spread over endpoints.
    #[serde(default)]
    pub balance: Option<BalanceSpec>,
}

impl TrafficPolicySpec {
    /// Whether it says how clients authenticate themselves.
    pub(crate) fn has_credentials(&self) -> bool {
        self.jwt.is_some() || self.basic_auth.is_some() || self.api_keys.is_some()
    }
}

/// Which of two policies wins, at targets of which one is nearer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum PrecedenceSpec {
    /// That of the nearer target.
    #[default]
    Defaults,
    /// That of the wider one.
    Overrides,
}

/// The target of a policy, which its status repeats.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTargetReference {
    pub group: String,
    pub kind: String,
    pub name: String,
    /// A listener of a Gateway, or a named rule of a route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

impl PolicyTargetReference {
    /// The object of this namespace that is meant, if its kind is known.
    pub(crate) fn object(&self, namespace: &str) -> Option<ObjectRef> {
        let kind = ObjectKind::find(&self.group, &self.kind)?;
        Some(ObjectRef::new(
            kind,
            &ObjectName::new(namespace, &self.name),
        ))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct AccessLogSpec {
    /// Turns the log off. The field is not called `off`: kubectl reads that as `false`.
    #[serde(default, rename = "disabled")]
    pub off: bool,
    #[serde(default)]
    pub format: AccessLogFormat,
    /// Share of the requests, 0 to 1.
    #[serde(default = "every_request")]
    pub sample: f64,
    #[serde(default)]
    pub filter: AccessLogFilterSpec,
}

fn every_request() -> f64 {
    1.0
}

/// Form of the access log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessLogFormat {
    /// A line of text.
    #[default]
    Text,
    /// A line of JSON.
    Json,
}

/// Which requests are logged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLogFilterSpec {
    /// This status or a higher one.
    #[serde(default)]
    pub status_at_least: Option<u16>,
    /// This long or longer.
    #[serde(default)]
    pub duration_at_least: Option<String>,
}

macro_rules! spec {
    ($($(#[$doc:meta])* $field:ident $name:literal:
        $kind:ident, $scope:ident, $default:literal, $least:literal..=$most:literal;)*) => {
        /// Limits and timeouts; durations are Gateway API's, `0s` means none.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct LimitsSpec {
            $($(#[$doc])*
            #[serde(default)]
            pub $field: Option<<limits::$kind as LimitKind>::Written>,)*
        }
    };
}

limits_table!(spec);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyProtocolSpec {
    /// Whether it is read from clients.
    #[serde(rename = "in")]
    pub inbound: ProxyProtocolIn,
    /// Networks that may send the header; empty means all.
    #[serde(default)]
    pub trusted_sources: Vec<String>,
}

/// Whether a PROXY protocol header is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum ProxyProtocolIn {
    /// Never. The value is not called `Off`: kubectl reads that as `false`.
    #[serde(rename = "Disabled")]
    Off,
    /// A header is read where a connection begins with one.
    Optional,
    Required,
}

/// How paths are normalised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathOptionsSpec {
    /// Whether `//` is replaced by `/`.
    #[serde(default)]
    pub merge_slashes: bool,
    /// How `%2F` in a path is handled.
    #[serde(default)]
    pub escaped_slash: EscapedSlashAction,
}

/// How `%2F` in a path is handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum EscapedSlashAction {
    #[default]
    Keep,
    /// The request gets status 400.
    Reject,
}

/// The limit of concurrent retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct RetryBudgetSpec {
    /// Retries in flight, in percent of the requests in flight.
    #[serde(default = "twenty")]
    pub percent: u32,
    /// Retries in flight that are always allowed.
    #[serde(default = "ten")]
    pub floor: u32,
}

fn twenty() -> u32 {
    20
}

fn ten() -> u32 {
    10
}

/// When an endpoint is ejected.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EjectionSpec {
    /// Consecutive failures.
    #[serde(default = "five")]
    pub consecutive_failures: NonZeroU32,
    /// Duration of the first ejection.
    #[serde(default = "thirty_seconds")]
    pub base: String,
    /// Longest ejection.
    #[serde(default = "five_minutes")]
    pub max: String,
    /// Most endpoints ejected at once, in percent.
    #[serde(default = "fifty")]
    pub max_percent: u32,
}

fn five() -> NonZeroU32 {
    NonZeroU32::new(5).unwrap_or(NonZeroU32::MIN)
}

fn thirty_seconds() -> String {
    "30s".to_owned()
}

fn five_minutes() -> String {
    "5m".to_owned()
}

fn fifty() -> u32 {
    50
}
