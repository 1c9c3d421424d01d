//! Conditions: their types, their reasons, and whether they report a problem.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use super::length::shortened;
use super::problem;
use super::problem::Problem;
use super::reason::Reason;
use crate::level::Level;

/// One condition of an object, or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// Why, in a word.
    pub reason: Reason,
    /// Why, and what to do.
    pub message: Cow<'static, str>,
    /// The generation of the object that the condition applies to.
    pub observed_generation: i64,
    /// The field to blame, if one is; no part of the Kubernetes form.
    #[serde(skip)]
    pub field: Option<String>,
    /// Whether it is the cause or a consequence; not part of the Kubernetes status.
    #[serde(skip)]
    pub blame: Blame,
}

/// Whether a condition is the cause of its problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The problem is the one that the condition states.
    Own,
    /// It follows from another condition, which has the details.
    Follows,
}

impl Condition {
    /// Whether it reports a problem.
    #[must_use]
    pub fn is_problem(&self) -> bool {
        self.status != self.kind.normal_status() || self.reason == Reason::PartiallyProgrammed
    }

    /// How bad its problem is; `None` if it reports none.
    #[must_use]
    pub fn level(&self) -> Option<Level> {
        if !self.is_problem() {
            return None;
        }
        Some(match self.blame {
            Blame::Follows => Level::Note,
            Blame::Own => level_of(&self.kind.to_string(), &self.reason.to_string()),
        })
    }
}

/// How bad the problem of a condition is that has this type and reason.
#[must_use]
pub fn level_of(kind: &str, reason: &str) -> Level {
    match (kind, reason) {
        ("OverlappingTLSConfig" | "HostnamesTaken", _) | (_, "Overridden") => Level::Note,
        (
            "InsecureFrontendValidationMode" | "PolicyAncestorLimitReached" | "SupportedVersion",
            _,
        )
        | (
            _,
            "HealthChecksStretched"
            | "LiteralWildcard"
            | "NoEffect"
            | "NoTopologyHints"
            | "NodesNotReadable"
            | "NotInUse"
            | "PlainTextToTlsPort"
            | "RefusesAll"
            | "RolloutsInterrupt"
            | "RouteRulesOverlap"
            | "TrustsEveryAddress"
            | "ZoneUnknown",
        ) => Level::Warning,
        _ => Level::Error,
    }
}

/// Types of conditions, named as in Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ConditionType {
    /// The object is valid, and its parents accept it.
    Accepted,
    /// The data plane has applied the configuration.
    Programmed,
    /// All its references are resolved.
    ResolvedRefs,
    /// It has every address that it requests. Written once addresses are assigned.
    AddressesAssigned,
    /// Another object, or another part of this one, claims the same. Normally false.
    Conflicted,
    /// Some of its rules were dropped. Normally false, and left out then.
    PartiallyInvalid,
    /// A policy has an effect.
    Attached,
    /// Routes that use default Gateways attach without naming it. Written only if they do.
    DefaultGateway,
    /// Clients without a valid certificate are accepted. Written only if they are.
    InsecureFrontendValidationMode,
    /// Host names of listeners overlap, so that a client may send a request over a connection of
    /// another listener (which answers 421). Written only if they do.
    OverlappingTLSConfig,
    /// ListenerSets serve host names that a listener of their Gateway would serve. Not in Gateway API.
    /// Written only if they do.
    HostnamesTaken,
    /// A referenced certificate has expired. Not in Gateway API, whose `ResolvedRefs` is about
    /// references that cannot be resolved. Written only if one has.
    CertificateExpired,
    /// A referenced certificate is not valid yet, or not for the host of its listener: clients reject it. Not
    /// in Gateway API, as `CertificateExpired`. Written only if so.
    CertificateUnsuitable,
    /// Policies do not apply to this Gateway, because their statuses have no room for it. Gateway API
    /// requires to signal it on the Gateway, without naming a condition. Written only if there are any.
    PolicyAncestorLimitReached,
    /// A Gateway has more listeners or ports than its limit: new ones are refused. Not in Gateway API.
    /// Written only if it has.
    ListenerLimitExceeded,
    /// The definitions of Gateway API are of a release that the controller was tested with.
    SupportedVersion,
    /// Something of it does not work as it is written, although all its references are resolved. Not in Gateway
    /// API. Written only if so.
    Degraded,
    /// The last changes of a Gateway's workload or Service cannot be applied. Not in Gateway API, whose
    /// `Programmed` is about requests, which earlier versions may serve. Written only if so.
    DeploymentFailed,
    /// A Gateway does not get the autoscaler that its parameters ask for. Not in Gateway API, whose conditions are
    /// about what is served. Written only if so.
    AutoscalingRefused,
    /// Proxies cannot reach something that the object names and that only they reach, such as a JWKS, or what its
    /// health checks ask. Not in Gateway API. Written only if so.
    DependencyUnavailable,
}

impl ConditionType {
    fn normal_status(self) -> ConditionStatus {
        match self {
            Self::Conflicted
            | Self::PartiallyInvalid
            | Self::InsecureFrontendValidationMode
            | Self::OverlappingTLSConfig
            | Self::HostnamesTaken
            | Self::CertificateExpired
            | Self::CertificateUnsuitable
            | Self::Degraded
            | Self::ListenerLimitExceeded
            | Self::PolicyAncestorLimitReached
            | Self::DeploymentFailed
            | Self::AutoscalingRefused
            | Self::DependencyUnavailable => ConditionStatus::False,
            Self::Accepted
            | Self::Programmed
            | Self::ResolvedRefs
            | Self::AddressesAssigned
            | Self::DefaultGateway
            | Self::SupportedVersion
            | Self::Attached => ConditionStatus::True,
        }
    }
}

/// Status of a condition, as in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum ConditionStatus {
    /// The condition is true.
    True,
    /// The condition does not hold.
    False,
    /// It cannot be determined yet.
    Unknown,
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Writes the conditions of one version of an object.
pub(crate) struct Conditions {
    generation: i64,
    list: Vec<Condition>,
}

impl Conditions {
    pub(crate) fn of(generation: i64) -> Self {
        Self {
            generation,
            list: Vec::with_capacity(2),
        }
    }

    /// That certificates are not as clients want them. They are served all the same.
    pub(crate) fn certificates(self, problems: &[Problem]) -> Self {
        let is_expired = |it: &&Problem| it.reason == Reason::CertificateExpired;
        let (expired, others): (Vec<_>, Vec<_>) = problems.iter().partition(is_expired);
        let cloned = |all: Vec<&Problem>| all.into_iter().cloned().collect::<Vec<Problem>>();
        self.abnormal(ConditionType::CertificateExpired, &cloned(expired))
            .abnormal(ConditionType::CertificateUnsuitable, &cloned(others))
    }

    /// A condition as it should be.
    pub(crate) fn normal(self, kind: ConditionType, reason: Reason, text: &'static str) -> Self {
        self.with(
            kind,
            kind.normal_status(),
            reason,
            Cow::Borrowed(text),
            None,
        )
    }

    /// As [`Self::normal`], with a message of its own.
    pub(crate) fn normal_with_message(
        self,
        kind: ConditionType,
        reason: Reason,
        text: String,
    ) -> Self {
        self.with(kind, kind.normal_status(), reason, Cow::Owned(text), None)
    }

    /// The opposite, for the first problem's reason, naming all of them.
    pub(crate) fn abnormal(self, kind: ConditionType, problems: &[Problem]) -> Self {
        let Some(first) = problems.first() else {
            return self;
        };
        let status = match kind.normal_status() {
            ConditionStatus::True => ConditionStatus::False,
            _ => ConditionStatus::True,
        };
        let message = problem::join(problems.iter());
        let field = (!first.field.is_empty()).then(|| first.field.clone());
        self.with(kind, status, first.reason, message.into(), field)
    }

    pub(crate) fn with(
        mut self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: Cow<'static, str>,
        field: Option<String>,
    ) -> Self {
        self.list.push(Condition {
            kind,
            status,
            reason,
            message: shortened(message),
            observed_generation: self.generation,
            field,
            blame: Blame::Own,
        });
        self
    }

    /// That parts of a policy have no effect, while the others do (GEP-713). Written only if there are
    /// any.
    pub(crate) fn partially_programmed(self, what: &str, without_effect: &[Problem]) -> Self {
        let Some(first) = without_effect.first() else {
            return self;
        };
        let listed = problem::join(without_effect.iter());
        let message = format!("{what}: {listed}");
        self.with(
            ConditionType::Programmed,
            ConditionStatus::True,
            Reason::PartiallyProgrammed,
            message.into(),
            Some(first.field.clone()),
        )
    }

    /// Blames others for the condition written last.
    pub(crate) fn that_follows(mut self) -> Self {
        if let Some(last) = self.list.last_mut() {
            last.blame = Blame::Follows;
        }
        self
    }

    /// That a listener overlaps with another: information, not a problem, since a request to the wrong
    /// listener is answered with 421.
    pub(crate) fn overlapping(self, other: &str) -> Self {
        let message = format!(
            "host names overlap with those of listener `{other}`: clients may send requests for one \
             over a connection to the other, which HTTPS answers with 421"
        );
        let (kind, status) = (ConditionType::OverlappingTLSConfig, ConditionStatus::True);
        let reason = Reason::OverlappingHostnames;
        self.with(kind, status, reason, message.into(), None)
            .that_follows()
    }

    pub(crate) fn done(self) -> Vec<Condition> {
        self.list
    }
}
