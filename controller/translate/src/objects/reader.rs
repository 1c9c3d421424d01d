//! Read access of units. Every look-up is recorded, including those that find nothing, so that the
//! unit runs again when the result changes.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use xds::model::{Backend, BackendTls, Certificate, ObjectName, SessionKeys, SessionPersistence};

use super::api::{Labels, Namespace, Secret};
use super::grants::{ReferenceDirection, Referent};
use super::index::PodLabel;
use super::kinds::ObjectKind;
use super::object_index::ObjectIndex;
use super::object_ref::ObjectRef;
use super::store::StoredKind;
use crate::backend::api::Pod;
use crate::backend::upstream::Upstream;
use crate::engine::fact::Fact;
use crate::options::{AssignedAddresses, Environment, ListenerLimits, NO_ADDRESSES, Options};
use crate::status::problem::Problem;

/// Provides read access to one run of a unit.
pub(crate) struct Reader<'a> {
    objects: &'a ObjectIndex,
    facts: RefCell<Vec<Fact>>,
    expires: Cell<Option<Timestamp>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(objects: &'a ObjectIndex) -> Self {
        Self {
            objects,
            facts: RefCell::default(),
            expires: Cell::default(),
        }
    }

    /// The facts that were read, and when the first of them expires.
    pub(crate) fn into_reads(self) -> (Vec<Fact>, Option<Timestamp>) {
        (self.facts.into_inner(), self.expires.get())
    }

    /// Records that the output depends on this.
    pub(crate) fn depend_on(&self, fact: Fact) {
        self.facts.borrow_mut().push(fact);
    }

    /// Options, which no object contains. They do not change, except for those that [`Fact`]
    /// covers.
    pub(crate) fn options(&self) -> &'a Options {
        &self.objects.options
    }

    /// Whether the proxies run on one machine, where no other controller exists.
    pub(crate) fn is_machine(&self) -> bool {
        self.objects.is_machine()
    }

    /// Whether the time is known.
    pub(crate) fn knows_time(&self) -> bool {
        self.objects.now > Timestamp::MIN
    }

    /// Whether `at` has passed. The unit runs again when it does.
    pub(crate) fn is_over(&self, at: Timestamp) -> bool {
        if at < self.objects.now {
            return true;
        }
        let first = self.expires.get().map_or(at, |first| first.min(at));
        self.expires.set(Some(first));
        false
    }

    pub(crate) fn object<T: StoredKind>(&self, name: &ObjectName) -> Option<&'a Arc<T>> {
        self.depend_on(Fact::Object(ObjectRef::of::<T>(name)));
        T::all(&self.objects.store).get(name)
    }

    /// Whether an object exists, whatever its content.
    pub(crate) fn exists(&self, kind: ObjectKind, name: &ObjectName) -> bool {
        let object = ObjectRef::new(kind, name);
        let exists = self.objects.store.contains(&object);
        self.depend_on(Fact::Exists(object));
        exists
    }

    /// Whether an object of `kind` in `namespace` may refer to `to`. Its own namespace needs no
    /// grant.
    pub(crate) fn permits(&self, kind: ObjectKind, namespace: &str, to: Referent<'_>) -> bool {
        if namespace == to.namespace {
            return true;
        }
        let way = Arc::new(ReferenceDirection {
            from: (kind.group().into(), kind.name().into(), namespace.into()),
            to: (to.group.into(), to.kind.into(), to.namespace.into()),
        });
        self.depend_on(Fact::ReferenceDirection(Arc::clone(&way)));
        self.objects.grants.permit(&way, to.name)
    }

    /// The labels of a namespace. An unknown one has only the label that every namespace has.
    pub(crate) fn labels(&self, namespace: &str) -> Cow<'a, Labels> {
        let name = ObjectName::new("", namespace);
        self.depend_on(Fact::Labels(Arc::clone(&name.name)));
        let known = Namespace::all(&self.objects.store).get(&name);
        Namespace::labels(known.map(|it| &**it), namespace)
    }

    /// The slices of a Service, by name.
    pub(crate) fn slices(&self, service: &ObjectName) -> impl Iterator<Item = &'a ObjectName> {
        self.depend_on(Fact::Slices(service.clone()));
        self.objects.slices.at(service)
    }

    /// The Pods of a namespace that have one of the labels, which few others have; by name.
    pub(crate) fn pods(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> impl Iterator<Item = &'a Pod> {
        let labels = labels.iter().map(|(key, value)| {
            Arc::new(PodLabel {
                namespace: namespace.into(),
                key: key.as_str().into(),
                value: value.as_str().into(),
            })
        });
        // A Pod with all labels has this one too, so the other labels need no index.
        let rarest = labels.min_by_key(|label| self.objects.pods.at(label).count());
        let names = rarest.into_iter().flat_map(|label| {
            self.depend_on(Fact::Pods(Arc::clone(&label)));
            self.objects.pods.at(&label)
        });
        names.filter_map(|name| self.object::<Pod>(name).map(|pod| &**pod))
    }

    /// The ListenerSets that name a Gateway, by name.
    pub(crate) fn sets(&self, gateway: &ObjectName) -> impl Iterator<Item = &'a ObjectName> {
        self.depend_on(Fact::Sets(gateway.clone()));
        self.objects.sets.at(gateway)
    }

    /// The Gateways that take routes which do not name them, by name.
    pub(crate) fn default_gateways(&self) -> &'a BTreeSet<ObjectName> {
        self.depend_on(Fact::DefaultGateways());
        &self.objects.default_gateways
    }

    /// The addresses that a machine has; `None` in a cluster.
    pub(crate) fn machine_addresses(&self) -> Option<&'a BTreeSet<IpAddr>> {
        match &self.objects.options.environment {
            Environment::Machine { addresses } => {
                self.depend_on(Fact::MachineAddresses());
                Some(addresses)
            }
            Environment::Cluster { .. } => None,
        }
    }

    /// The domain of the cluster's names; `None` on a machine. It does not change.
    pub(crate) fn cluster_domain(&self) -> Option<&'a str> {
        match &self.objects.options.environment {
            Environment::Cluster { domain, .. } => Some(domain),
            Environment::Machine { .. } => None,
        }
    }

    /// The addresses that were assigned to a Gateway of a cluster.
    pub(crate) fn assigned(&self, gateway: &ObjectName) -> &'a AssignedAddresses {
        self.depend_on(Fact::AssignedAddresses(gateway.clone()));
        let found = match &self.objects.options.environment {
            Environment::Cluster { assigned, .. } => assigned.get(gateway),
            Environment::Machine { .. } => None,
        };
        found.unwrap_or(&NO_ADDRESSES)
    }

    /// The session keys of a Gateway of a cluster. On a machine they are not a matter of objects.
    pub(crate) fn session_keys(&self, gateway: &ObjectName) -> Option<&'a SessionKeys> {
        self.depend_on(Fact::SessionKeys(gateway.clone()));
        match &self.objects.options.environment {
            Environment::Cluster { session_keys, .. } => session_keys.get(gateway),
            Environment::Machine { .. } => None,
        }
    }

    /// Whether there are `GatewayParameters` of this name; a machine needs none.
    pub(crate) fn has_parameters(&self, name: &ObjectName) -> bool {
        self.depend_on(Fact::Exists(ObjectRef::new(
            ObjectKind::GatewayParameters,
            name,
        )));
        match &self.objects.options.environment {
            Environment::Cluster { parameters, .. } => parameters.contains(name),
            Environment::Machine { .. } => true,
        }
    }

    /// The limits of listeners that the `GatewayParameters` of a Gateway set, or else those of its class. `None`
    /// while parameters that may set some do not exist.
    pub(crate) fn listener_limits(
        &self,
        parameters: Option<&ObjectName>,
        class: &str,
    ) -> Option<ListenerLimits> {
        let Environment::Cluster {
            limits,
            class_parameters,
            ..
        } = &self.objects.options.environment
        else {
            return Some(ListenerLimits::default());
        };
        let of = |name: Option<&ObjectName>| {
            let Some(name) = name else {
                return Some(ListenerLimits::default());
            };
            self.depend_on(Fact::ListenerLimits(name.clone()));
            let exists = self.has_parameters(name);
            exists.then(|| limits.get(name).copied().unwrap_or_default())
        };
        let own = of(parameters)?;
        if own.ports.is_some() && own.listeners.is_some() {
            return Some(own);
        }
        self.depend_on(Fact::ClassParameters(class.into()));
        Some(own.or(of(class_parameters.get(class))?))
    }

    /// The limits that a Gateway last had by valid parameters. Only that Gateway reads them.
    pub(crate) fn last_limits(&self, gateway: &ObjectName) -> ListenerLimits {
        match &self.objects.options.environment {
            Environment::Cluster { last_limits, .. } => {
                last_limits.get(gateway).copied().unwrap_or_default()
            }
            Environment::Machine { .. } => ListenerLimits::default(),
        }
    }

    /// Whether there can be ClusterTrustBundle objects; a machine reads them from files.
    pub(crate) fn has_trust_bundles(&self) -> bool {
        self.depend_on(Fact::TrustBundles());
        match &self.objects.options.environment {
            Environment::Cluster {
                has_trust_bundles, ..
            } => *has_trust_bundles,
            Environment::Machine { .. } => true,
        }
    }

    /// Whether Gateways of this class belong to this controller.
    pub(crate) fn is_our_class(&self, class: &str) -> bool {
        let object = ObjectRef::new(ObjectKind::GatewayClass, &ObjectName::new("", class));
        self.depend_on(Fact::Exists(object));
        self.objects.options.classes.contains(class)
    }

    /// A `Backend`, lowered to the model, or its problem.
    pub(crate) fn backend(&self, name: &ObjectName) -> Option<&'a Result<Backend, Problem>> {
        self.depend_on(Fact::Backend(name.clone()));
        self.objects.backends.get(name).map(|backend| &**backend)
    }

    /// The settings of TLS that hold for an upstream, or for a section of it.
    pub(crate) fn backend_tls(
        &self,
        upstream: &Upstream,
        section: Option<&str>,
    ) -> Option<&'a BackendTls> {
        let key = (upstream.clone(), section.map(Arc::from));
        self.depend_on(Fact::BackendTls(key.0.clone(), key.1.clone()));
        self.objects.backend_tls.get(&key).map(|tls| &**tls)
    }

    /// The session persistence of an upstream by an XBackendTrafficPolicy.
    pub(crate) fn session(&self, upstream: &Upstream) -> Option<&'a SessionPersistence> {
        self.depend_on(Fact::Session(upstream.clone()));
        self.objects
            .sessions
            .get(upstream)
            .map(|session| &**session)
    }

    /// The certificate of a Secret, if that exists; parsed by `read` unless it was before.
    pub(crate) fn certificate_of(
        &self,
        name: &ObjectName,
        read: impl FnOnce(&Secret) -> Result<Certificate, String>,
    ) -> Option<Result<Certificate, String>> {
        let secret = self.object::<Secret>(name)?;
        let mut certificates = self.objects.certificates.borrow_mut();
        let certificate = certificates.entry(name.clone());
        Some(certificate.or_insert_with(|| read(secret)).clone())
    }
}
