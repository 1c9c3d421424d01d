//! The parts of the cluster's objects that show whether they work.

use std::borrow::Cow;
use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use translate::Level;
use translate::diagnosis::Hints;
use translate::status::level_of;

/// A condition of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) reason: String,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) observed_generation: i64,
}

impl Condition {
    /// Whether it reports a problem.
    pub(super) fn is_problem(&self) -> bool {
        let good = if ABNORMAL_WHEN_TRUE.contains(&self.kind.as_str()) {
            "False"
        } else {
            "True"
        };
        self.status != good || self.reason == PARTIALLY_PROGRAMMED
    }

    /// Whether it is the API server's, before any controller has written one.
    pub(super) fn is_default(&self) -> bool {
        self.reason == "Pending" && self.message == "Waiting for controller"
    }

    /// How bad its problem is.
    pub(super) fn level(&self) -> Level {
        level_of(&self.kind, &self.reason)
    }

    /// The condition in short, such as `ResolvedRefs=False (BackendNotFound)`.
    pub(super) fn summary(&self) -> String {
        format!("{}={} ({})", self.kind, self.status, self.reason)
    }

    /// The same with the message.
    pub(super) fn text(&self) -> String {
        format!("{}: {}", self.summary(), self.message)
    }
}

/// The reason of a condition that holds for parts of an object only.
const PARTIALLY_PROGRAMMED: &str = "PartiallyProgrammed";

/// Conditions that report a problem when they are true.
const ABNORMAL_WHEN_TRUE: [&str; 13] = [
    "AutoscalingRefused",
    "CertificateExpired",
    "CertificateUnsuitable",
    "Conflicted",
    "Degraded",
    "DependencyUnavailable",
    "DeploymentFailed",
    "HostnamesTaken",
    "InsecureFrontendValidationMode",
    "ListenerLimitExceeded",
    "OverlappingTLSConfig",
    "PartiallyInvalid",
    "PolicyAncestorLimitReached",
];

/// The problems among conditions, without those that follow from another: a listener that is not
/// accepted is not programmed either.
pub(super) fn problems(conditions: &[Condition]) -> Vec<&Condition> {
    let mut problems: Vec<&Condition> = conditions.iter().filter(|it| it.is_problem()).collect();
    if problems.iter().any(|it| it.kind != "Programmed") {
        problems.retain(|it| it.kind != "Programmed" || it.reason == PARTIALLY_PROGRAMMED);
    }
    // Some conditions say the same: that a policy is not accepted, and attached nowhere.
    let mut seen = BTreeSet::new();
    problems.retain(|it| it.message.is_empty() || seen.insert(&it.message));
    problems
}

/// `ok`, or the problems in short.
pub(super) fn summary(conditions: &[Condition]) -> String {
    let problems = problems(conditions).into_iter();
    let problems = problems.filter(|it| it.level() > Level::Note);
    let problems = problems.map(Condition::summary);
    let problems: Vec<String> = problems.collect();
    match (conditions, problems.as_slice()) {
        ([], _) => "no status".to_owned(),
        (_, []) => "ok".to_owned(),
        (_, problems) => problems.join(", "),
    }
}

/// A reference to a Gateway or ListenerSet, from the object that has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ParentRef {
    kind: Option<String>,
    namespace: Option<String>,
    name: String,
    pub(super) section_name: Option<String>,
    pub(super) port: Option<u16>,
}

impl ParentRef {
    /// `Gateway/namespace/name`, for a reference of an object in the namespace.
    pub(super) fn key(&self, namespace: &str) -> String {
        let kind = self.kind.as_deref().unwrap_or("Gateway");
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        format!("{kind}/{namespace}/{}", self.name)
    }

    fn is_same(&self, other: &Self, namespace: &str) -> bool {
        let (own, others) = (self.key(namespace), other.key(namespace));
        own == others && self.section_name == other.section_name && self.port == other.port
    }
}

/// The status of a route or policy for one of its parents or ancestors.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Verdict {
    #[serde(alias = "ancestorRef")]
    pub(super) parent_ref: ParentRef,
    pub(super) conditions: Vec<Condition>,
}

/// A Gateway's or ListenerSet's listener.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Listener {
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) protocol: String,
    pub(super) hostname: Option<String>,
}

/// The status of a listener.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListenerStatus {
    pub(super) name: String,
    pub(super) attached_routes: u32,
    pub(super) conditions: Vec<Condition>,
}

/// An address of a Gateway.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Address {
    pub(super) value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    gateway_class_name: String,
    listeners: Vec<Listener>,
    parent_refs: Vec<ParentRef>,
    parent_ref: Option<ParentRef>,
    hostnames: Vec<String>,
    rules: Vec<Rule>,
}

/// A rule of a route.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    backend_refs: Vec<BackendRef>,
}

/// A reference to a backend.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BackendRef {
    kind: Option<String>,
    namespace: Option<String>,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    addresses: Vec<Address>,
    conditions: Vec<Condition>,
    listeners: Vec<ListenerStatus>,
    #[serde(alias = "ancestors")]
    parents: Vec<Verdict>,
}

/// An object, as far as all kinds have the same form.
#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) generation: i64,
    spec: Spec,
    status: Status,
}

impl Object {
    /// Reads an object. What has another form than expected is left out.
    pub(super) fn new(kind: &str, object: &DynamicObject) -> Self {
        let part = |name: &str| object.data.get(name).cloned().unwrap_or(Value::Null);
        Self {
            kind: kind.to_owned(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            generation: object.metadata.generation.unwrap_or_default(),
            spec: serde_json::from_value(part("spec")).unwrap_or_default(),
            status: serde_json::from_value(part("status")).unwrap_or_default(),
        }
    }

    /// The same object, as translation of files has it.
    pub(super) fn of_json(kind: &str, object: &Value) -> Self {
        let part = |name: &str| object.get(name).cloned().unwrap_or(Value::Null);
        let text = |path: &str| {
            let text = object.pointer(path).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        Self {
            kind: kind.to_owned(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            generation: 0,
            spec: serde_json::from_value(part("spec")).unwrap_or_default(),
            status: serde_json::from_value(part("status")).unwrap_or_default(),
        }
    }

    /// Completes messages about objects that do not exist.
    pub(super) fn complete(&mut self, hints: &Hints<'_>) {
        let status = &mut self.status;
        let listeners = status.listeners.iter_mut().map(|it| &mut it.conditions);
        let parents = status.parents.iter_mut().map(|it| &mut it.conditions);
        let lists = listeners.chain(parents).chain([&mut status.conditions]);
        for condition in lists.flatten().filter(|it| it.is_problem()) {
            if let Cow::Owned(message) = hints.completed(&self.namespace, &condition.message) {
                condition.message = message;
            }
        }
    }

    /// What identifies the object: `Kind/namespace/name`.
    pub(super) fn key(&self) -> String {
        format!("{}/{}/{}", self.kind, self.namespace, self.name)
    }

    /// How output names the object: `Kind namespace/name`.
    pub(super) fn title(&self) -> String {
        format!("{} {}/{}", self.kind, self.namespace, self.name)
    }

    pub(super) fn class(&self) -> &str {
        &self.spec.gateway_class_name
    }

    pub(super) fn hostnames(&self) -> &[String] {
        &self.spec.hostnames
    }

    /// The backends of the rules of a route, as policies name them: `Kind/namespace/name`.
    pub(super) fn backends(&self) -> impl Iterator<Item = String> {
        let backends = self.spec.rules.iter().flat_map(|rule| &rule.backend_refs);
        backends.map(|backend| {
            let kind = backend.kind.as_deref().unwrap_or("Service");
            let namespace = backend.namespace.as_deref().unwrap_or(&self.namespace);
            format!("{kind}/{namespace}/{}", backend.name)
        })
    }

    pub(super) fn addresses(&self) -> &[Address] {
        &self.status.addresses
    }

    pub(super) fn conditions(&self) -> &[Condition] {
        &self.status.conditions
    }

    /// The listeners, each with its status where it has one.
    pub(super) fn listeners(&self) -> impl Iterator<Item = (&Listener, Option<&ListenerStatus>)> {
        self.spec.listeners.iter().map(|listener| {
            let mut statuses = self.status.listeners.iter();
            (listener, statuses.find(|it| it.name == listener.name))
        })
    }

    /// The references to all parents, each with the verdict of a controller where there is one.
    pub(super) fn all_parents(&self) -> Vec<(&ParentRef, Option<&Verdict>)> {
        let refs = self.spec.parent_refs.iter().chain(&self.spec.parent_ref);
        let keys: BTreeSet<String> = refs.map(|it| it.key(&self.namespace)).collect();
        self.parents(&keys)
    }

    /// All entries of its status.
    pub(super) fn all_verdicts(&self) -> &[Verdict] {
        &self.status.parents
    }

    /// The parents among those of these keys, each with the verdict of a controller where there is one.
    pub(super) fn parents(&self, keys: &BTreeSet<String>) -> Vec<(&ParentRef, Option<&Verdict>)> {
        let refs = self.spec.parent_refs.iter().chain(&self.spec.parent_ref);
        let ours = refs.filter(|it| keys.contains(&it.key(&self.namespace)));
        let verdict = |parent: &ParentRef| {
            let mut verdicts = self.status.parents.iter();
            verdicts.find(|it| it.parent_ref.is_same(parent, &self.namespace))
        };
        ours.map(|parent| (parent, verdict(parent))).collect()
    }

    /// The entries for targets that do not exist, of a policy that may have meant something of these
    /// namespaces.
    pub(super) fn without_target(&self, namespaces: &BTreeSet<String>) -> Vec<&Verdict> {
        let is_missing = |it: &&Verdict| {
            let mut conditions = it.conditions.iter();
            conditions.any(|it| it.is_problem() && it.reason == "TargetNotFound")
        };
        let verdicts = self.status.parents.iter().filter(is_missing);
        verdicts
            .filter(|_| namespaces.contains(&self.namespace))
            .collect()
    }

    /// The entries for ancestors with these keys.
    pub(super) fn verdicts(&self, keys: &BTreeSet<String>) -> Vec<&Verdict> {
        let verdicts = self.status.parents.iter();
        let ours = verdicts.filter(|it| keys.contains(&it.parent_ref.key(&self.namespace)));
        ours.collect()
    }
}
