//! Objects without a status that others find wrong: Secrets with certificates of listeners, and GatewayParameters.
//! Whoever made one looks there, so that it gets Events of its own; the status of the Gateway or ListenerSet that
//! refers to it has the same text.

use std::collections::{BTreeMap, BTreeSet};

use translate::status::{ListenerStatus, Reason, Status};
use translate::{ObjectKind, ObjectRef};
use xds::model::ObjectName;

use super::programmed::Deployment;

/// What is wrong with an object, as one that refers to it sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fault {
    pub(super) reason: Reason,
    pub(super) text: String,
}

/// The faults that an object finds in others.
pub(super) type Faults = BTreeMap<ObjectRef, Vec<Fault>>;

/// What all objects find wrong with others.
#[derive(Debug, Default)]
pub(super) struct Blamed {
    by_finder: BTreeMap<ObjectRef, Faults>,
    finders: BTreeMap<ObjectRef, BTreeSet<ObjectRef>>,
}

impl Blamed {
    /// Takes what an object finds now. Returns the objects of which that has changed.
    pub(super) fn observe(&mut self, finder: &ObjectRef, faults: Faults) -> BTreeSet<ObjectRef> {
        let before = self.by_finder.remove(finder).unwrap_or_default();
        if before.is_empty() && faults.is_empty() {
            return BTreeSet::new();
        }
        let objects = before.keys().chain(faults.keys());
        let changed = objects.filter(|it| before.get(it) != faults.get(it));
        let changed: BTreeSet<ObjectRef> = changed.cloned().collect();
        for object in before.keys().filter(|it| !faults.contains_key(it)) {
            if let Some(finders) = self.finders.get_mut(object) {
                finders.remove(finder);
                if finders.is_empty() {
                    self.finders.remove(object);
                }
            }
        }
        for object in faults.keys() {
            let finders = self.finders.entry(object.clone()).or_default();
            finders.insert(finder.clone());
        }
        if !faults.is_empty() {
            self.by_finder.insert(finder.clone(), faults);
        }
        changed
    }

    /// What is wrong with an object.
    pub(super) fn of(&self, object: &ObjectRef) -> Vec<Fault> {
        let finders = self.finders.get(object).into_iter().flatten();
        let faults = finders.filter_map(|it| self.by_finder.get(it)?.get(object));
        faults.flatten().cloned().collect()
    }
}

/// What the status of a Gateway or ListenerSet says of Secrets that exist.
pub(super) fn in_status(object: &ObjectRef, status: &Status) -> Faults {
    let listeners = match status {
        Status::Gateway(status) => &status.listeners,
        Status::ListenerSet(status) => &status.listeners,
        _ => return Faults::new(),
    };
    let mut faults = Faults::new();
    for listener in listeners {
        add(object, listener, &mut faults);
    }
    faults
}

fn add(object: &ObjectRef, listener: &ListenerStatus, faults: &mut Faults) {
    let conditions = listener.conditions.iter();
    for condition in conditions.filter(|it| it.is_problem() && OF_SECRETS.contains(&it.reason)) {
        // One message lists all of a listener, perhaps of Secrets in other namespaces.
        for text in condition.message.split("; ") {
            let Some(secret) = secret_in(text).filter(|_| is_about_content(text)) else {
                continue;
            };
            let text = format!("listener {} of {object}: {text}", listener.name);
            let of_secret = faults.entry(secret).or_default();
            of_secret.push(Fault {
                reason: condition.reason,
                text,
            });
        }
    }
}

/// The Secret that a text names.
fn secret_in(text: &str) -> Option<ObjectRef> {
    let (_, after) = text.split_once("Secret ")?;
    let (namespace, name) = after.split(' ').next()?.split_once('/')?;
    let name = ObjectName::new(namespace, name);
    Some(ObjectRef::new(ObjectKind::Secret, &name))
}

/// Whether it is for the owner of the Secret to correct.
fn is_about_content(text: &str) -> bool {
    !text.contains(" does not exist") && !text.contains(" is in another namespace")
}

/// The GatewayParameters that are to blame, if any, for why a Gateway is not deployed as it is written.
pub(super) fn in_deployment(
    gateway: &ObjectRef,
    parameters: &ObjectName,
    deployment: &Deployment,
) -> Faults {
    let kind = ObjectKind::GatewayParameters;
    let why = match deployment {
        Deployment::WithoutPods(obstacle) if obstacle.is_of_parameters => &obstacle.why,
        Deployment::Refused(why)
            if why.contains(kind.name()) && !why.contains(" does not exist") =>
        {
            why
        }
        _ => return Faults::new(),
    };
    let fault = Fault {
        reason: Reason::DeploymentFailed,
        text: format!("{gateway}: {why}"),
    };
    Faults::from([(ObjectRef::new(kind, parameters), vec![fault])])
}

/// Reasons of conditions about certificates.
const OF_SECRETS: [Reason; 4] = [
    Reason::InvalidCertificateRef,
    Reason::CertificateExpired,
    Reason::CertificateNotYetValid,
    Reason::CertificateOfOtherHost,
];

#[cfg(test)]
mod tests {
    use translate::files::{Source, admit};
    use translate::{Obstacle, Options, Store, translate};

    use super::*;

    fn secret(name: &str) -> ObjectRef {
        ObjectRef::new(ObjectKind::Secret, &ObjectName::new("infra", name))
    }

    /// The texts are those that translation writes.
    #[test]
    fn faults_of_secrets_are_found_in_the_status_of_their_listener() {
        let text = "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: edge, namespace: \
                    infra}, spec: {gatewayClassName: gateway, listeners: [{name: web, port: 443, protocol: HTTPS, \
                    tls: {certificateRefs: [{name: empty}, {name: gone}, {name: bad}]}}]}}\n---\n\
                    {apiVersion: v1, kind: Secret, metadata: {name: empty, namespace: infra}}\n---\n\
                    {apiVersion: v1, kind: Secret, metadata: {name: bad, namespace: infra}, stringData: {tls.crt: a, \
                    tls.key: b}}";
        let mut store = Store::default();
        let admitted = admit(&[Source::new("a.yaml", text)]);
        store.extend(admitted.objects.into_iter().map(|it| it.0));
        let translated = translate(&store, &Options::cluster());
        let (gateway, status) = translated.statuses.iter().next().expect("a status");
        let faults = in_status(gateway, status);
        let named: Vec<&ObjectRef> = faults.keys().collect();
        assert_eq!(named, [&secret("bad"), &secret("empty")]);
        let of_empty = &faults[&secret("empty")][0];
        let expected = "listener web of Gateway infra/edge: spec.listeners[0].tls.certificateRefs[0]: Secret infra/empty has no entry \
                        `tls.crt`";
        assert!(of_empty.text.starts_with(expected), "{}", of_empty.text);
        assert_eq!(of_empty.reason, Reason::InvalidCertificateRef);
    }

    #[test]
    fn what_several_find_is_collected_and_forgotten() {
        let (mut blamed, own) = (Blamed::default(), secret("own"));
        let finder = |name: &str| ObjectRef::new(ObjectKind::Gateway, &ObjectName::new("a", name));
        let fault = |text: &str| Fault {
            reason: Reason::CertificateExpired,
            text: text.to_owned(),
        };
        let faults = |text: &str| Faults::from([(own.clone(), vec![fault(text)])]);
        let changed = BTreeSet::from([own.clone()]);
        assert_eq!(blamed.observe(&finder("x"), faults("1")), changed);
        assert_eq!(blamed.observe(&finder("x"), faults("1")), BTreeSet::new());
        assert_eq!(blamed.observe(&finder("y"), faults("2")), changed);
        assert_eq!(blamed.of(&own), [fault("1"), fault("2")]);
        assert_eq!(blamed.observe(&finder("x"), Faults::new()), changed);
        assert_eq!(blamed.observe(&finder("y"), Faults::new()), changed);
        assert_eq!(blamed.of(&own), []);
        assert!(blamed.by_finder.is_empty() && blamed.finders.is_empty());
    }

    #[test]
    fn parameters_are_blamed_where_they_are_the_cause() {
        let gateway = ObjectRef::new(ObjectKind::Gateway, &ObjectName::new("infra", "edge"));
        let parameters = ObjectName::new("infra", "nodes");
        let refused = |why: &str| Deployment::Refused(why.to_owned());
        let without_pods = |is_of_parameters| {
            Deployment::WithoutPods(Obstacle {
                why: "exceeded quota; set `spec.resources` of the GatewayParameters".to_owned(),
                is_of_parameters,
            })
        };
        for (deployment, is_blamed) in [
            (
                refused(
                    "the API server rejected Deployment infra/edge: no; check the GatewayParameters",
                ),
                true,
            ),
            (
                refused("GatewayParameters infra/nodes is invalid: no"),
                true,
            ),
            (
                refused("GatewayParameters infra/nodes does not exist: create it"),
                false,
            ),
            (
                refused("Service infra/edge exists and does not belong to this Gateway"),
                false,
            ),
            (without_pods(true), true),
            // A quota, which has the same words.
            (without_pods(false), false),
            (Deployment::Done, false),
        ] {
            let faults = in_deployment(&gateway, &parameters, &deployment);
            assert_eq!(!faults.is_empty(), is_blamed, "{deployment:?}");
        }
    }
}
