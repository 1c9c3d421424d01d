//! The objects of a cluster that show whether its Gateways work.

use std::collections::BTreeSet;

use anyhow::Result;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;
use translate::diagnosis::{Diagnosis, Hints, Others, diagnose};
use translate::files::admit_value;
use translate::naming::child_name;
use translate::status::Reason;
use translate::{ObjectKind, Options, Store, WorkloadState, why_not_running};

use super::objects::Object;
use super::proxy;
use super::report::{Class, Everything, Findings, Proxies, Report};
use crate::cluster::{Cluster, Kind, Scope};
use crate::resource::{Resource, ResourceKind};
use crate::source::Source;

/// The status of a Gateway, or of all in the namespace, and of what else the namespace has.
///
/// # Errors
///
/// There is no such Gateway, or the cluster cannot be read.
pub(super) fn reports(source: &Source, name: Option<&str>) -> Result<Vec<Report>> {
    let cluster = source.cluster()?;
    let gateways = match name {
        Some(name) => vec![cluster.gateway(name)?],
        None => cluster.gateways()?,
    };
    let mut reader = Reader::new(cluster);
    let classes = gateways.iter().map(|it| Object::new("Gateway", it));
    let classes: BTreeSet<String> = classes.map(|it| it.class().to_owned()).collect();
    let all = reader.everything(classes);
    let mut reports = Vec::new();
    for gateway in &gateways {
        reports.push(Report::new(reader.findings(gateway, source)?, &all));
    }
    if name.is_none() {
        let listed = reports.iter().flat_map(|it: &Report| it.listed.clone());
        let listed: BTreeSet<String> = listed.collect();
        reports.extend(Report::of_namespace(cluster.namespace(), &all, &listed));
    }
    if reports.is_empty() {
        // With the names of those in other namespaces.
        cluster.find(None)?;
    }
    Ok(reports)
}

/// Reads objects, and notes what cannot be read.
struct Reader<'a> {
    cluster: &'a Cluster,
    store: Store,
    unread: Vec<String>,
    partly_read: Vec<String>,
    /// Kinds of which not all objects were read: nothing is concluded from one that is missing.
    incomplete: BTreeSet<&'static str>,
}

impl<'a> Reader<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            store: Store::default(),
            unread: Vec::new(),
            partly_read: Vec::new(),
            incomplete: BTreeSet::new(),
        }
    }

    /// The objects that may refer to Gateways, with what they show themselves, for Gateways of these classes; of
    /// the default class where a namespace has no Gateway.
    fn everything(&mut self, mut classes: BTreeSet<String>) -> Everything {
        let mut all = Everything {
            listener_sets: self.objects(&LISTENER_SET),
            ..Everything::default()
        };
        for versions in &ROUTES {
            all.routes.extend(self.objects(versions));
        }
        for versions in &POLICIES {
            all.policies.extend(self.objects(versions));
        }
        for kind in REFERENTS {
            self.list(&[kind]);
        }
        let mut options = Options::cluster();
        if classes.is_empty() {
            let gateways = self.store.gateways.values();
            classes.extend(gateways.map(|it| it.spec.gateway_class_name.clone()));
        }
        options.classes = classes;
        let diagnoses = diagnose(&self.store, &options, Others::Named).into_iter();
        all.diagnoses = diagnoses.filter(|it| self.is_certain(it)).collect();
        let hints = Hints::new(&self.store, Others::Named);
        let listed = all.routes.iter_mut().chain(&mut all.policies);
        for object in listed.chain(&mut all.listener_sets) {
            object.complete(&hints);
        }
        all.unread = std::mem::take(&mut self.unread);
        all.partly_read = std::mem::take(&mut self.partly_read);
        all
    }

    fn objects(&mut self, versions: &[Kind]) -> Vec<Object> {
        let found = self.list(versions);
        let kind = versions.first().map_or("", |it| it.name);
        found.iter().map(|it| Object::new(kind, it)).collect()
    }

    /// The objects of a kind of all namespaces, in the first version that the cluster has. Of the own
    /// namespace only, where others may not be read.
    fn list(&mut self, versions: &[Kind]) -> Vec<DynamicObject> {
        for kind in versions {
            let mut refusal = None;
            for scope in [Scope::Cluster, Scope::Namespace] {
                let api = self.cluster.objects(*kind, scope);
                let what = match scope {
                    Scope::Cluster => format!("{} of all namespaces", kind.plural),
                    Scope::Namespace => {
                        format!("{} of namespace {}", kind.plural, self.cluster.namespace())
                    }
                };
                match self.cluster.list(&api, &what, "") {
                    Ok(Some(objects)) => {
                        if refusal.is_some() {
                            self.incomplete.insert(kind.name);
                        }
                        self.partly_read.extend(refusal);
                        self.keep(kind, &objects);
                        return objects;
                    }
                    Ok(None) => break,
                    Err(error) => refusal = Some(error.to_string()),
                }
            }
            if refusal.is_some() {
                self.incomplete.insert(kind.name);
            }
            self.unread.extend(refusal);
        }
        Vec::new()
    }

    /// Whether a finding does not rest on objects that could not be read.
    fn is_certain(&self, diagnosis: &Diagnosis) -> bool {
        let kinds: &[&str] = match diagnosis.reason {
            Reason::NoMatchingParent => &["Gateway", "ListenerSet"],
            Reason::NoEndpointSlice | Reason::NoReadyEndpoints | Reason::NoTopologyHints => {
                &["EndpointSlice"]
            }
            Reason::NoBackends | Reason::NoCredentials => &["TrafficPolicy"],
            _ => &[],
        };
        !kinds.iter().any(|it| self.incomplete.contains(it))
    }

    /// Keeps objects in the form in which translation reads them. What it would refuse is left out: conditions
    /// report it.
    fn keep(&mut self, kind: &Kind, objects: &[DynamicObject]) {
        let Some(kind) = ObjectKind::find(kind.group, kind.name) else {
            return;
        };
        for object in objects {
            let Ok(Value::Object(fields)) = serde_json::to_value(object) else {
                continue;
            };
            let admitted = admit_value(kind, fields);
            self.store.extend(admitted.and_then(|it| it.object));
        }
    }

    /// What was read for one Gateway.
    fn findings(&self, gateway: &DynamicObject, source: &Source) -> Result<Findings> {
        let gateway = Object::new("Gateway", gateway);
        let class = self.class(gateway.class());
        let resource = Resource {
            kind: ResourceKind::Gateway,
            name: gateway.name.clone(),
        };
        let pods = self.cluster.find(Some(&resource))?.pods;
        Ok(Findings {
            class,
            proxies: Proxies::Asked(proxy::query(&pods, source)?),
            no_pods: self.no_pods(&gateway.name),
            gateway,
        })
    }

    /// Why the workload of a Gateway cannot make all its pods: a quota, the security standard of the namespace, a
    /// webhook. `None` where it can, or may not be read. What keeps pods from running is said of each.
    fn no_pods(&self, gateway: &str) -> Option<String> {
        let name = child_name(gateway);
        let why = |workload: &Value, events: &[Value]| {
            let state = WorkloadState {
                workload,
                pods: &[],
                events,
                now: Timestamp::now(),
            };
            why_not_running(state).map(|it| it.why)
        };
        let deployment = self.child(DEPLOYMENT, "Deployment", &name);
        if let Some(why) = deployment.and_then(|it| why(&it, &[])) {
            return Some(why);
        }
        let daemon_set = self.child(DAEMON_SET, "DaemonSet", &name)?;
        // Its status does not say what the API server does: Events do.
        why(&daemon_set, &[])?;
        why(&daemon_set, &self.events_of("DaemonSet", &name))
    }

    fn child(&self, kind: Kind, title: &str, name: &str) -> Option<Value> {
        let children = self.cluster.objects(kind, Scope::Namespace);
        let found = self.cluster.get(&children, title, name).ok()??;
        serde_json::to_value(found).ok()
    }

    /// The Events about an object, where they may be read.
    fn events_of(&self, kind: &str, name: &str) -> Vec<Value> {
        let events = self.cluster.objects(EVENT, Scope::Namespace);
        let found = self.cluster.list(&events, "Events", "");
        let found = found.ok().flatten().unwrap_or_default();
        let found = found.into_iter().filter(|it| {
            let about = &it.data["involvedObject"];
            about["kind"] == kind && about["name"] == name
        });
        found
            .filter_map(|it| serde_json::to_value(it).ok())
            .collect()
    }

    /// `None` where the class may not be read: it belongs to the cluster.
    fn class(&self, name: &str) -> Option<Class> {
        let classes = self.cluster.objects(CLASS, Scope::Cluster);
        let found = self.cluster.get(&classes, "GatewayClass", name).ok()?;
        let Some(class) = found else {
            return Some(Class::Missing);
        };
        let controller = class.data.pointer("/spec/controllerName");
        let controller = controller.and_then(Value::as_str).unwrap_or_default();
        Some(Class::Present {
            controller: controller.to_owned(),
            is_claimed: class.annotations().contains_key(CLAIMED_BY),
            conditions: Object::new("GatewayClass", &class).conditions().to_vec(),
        })
    }
}

/// The annotation of a class that an installation of our controller serves.
const CLAIMED_BY: &str = "gateway-system.io/claimed-by";
const DEPLOYMENT: Kind = Kind::built_in("apps", "v1", "Deployment", "deployments");
const DAEMON_SET: Kind = Kind::built_in("apps", "v1", "DaemonSet", "daemonsets");
const EVENT: Kind = Kind::built_in("", "v1", "Event", "events");
const CLASS: Kind = Kind::of_gateway_api("GatewayClass", "gatewayclasses");
const LISTENER_SET: [Kind; 1] = [Kind::of_gateway_api("ListenerSet", "listenersets")];
/// Kinds of routes, the newest version first.
const ROUTES: [&[Kind]; 5] = [
    &[Kind::HTTP_ROUTE],
    &[Kind::GRPC_ROUTE],
    &[
        Kind::of_gateway_api("TLSRoute", "tlsroutes"),
        Kind::of_gateway_api("TLSRoute", "tlsroutes").in_version("v1alpha3"),
        Kind::of_gateway_api("TLSRoute", "tlsroutes").in_version("v1alpha2"),
    ],
    &[
        Kind::of_gateway_api("TCPRoute", "tcproutes"),
        Kind::of_gateway_api("TCPRoute", "tcproutes").in_version("v1alpha2"),
    ],
    &[
        Kind::of_gateway_api("UDPRoute", "udproutes"),
        Kind::of_gateway_api("UDPRoute", "udproutes").in_version("v1alpha2"),
    ],
];
/// Kinds whose statuses name Gateways or targets.
const POLICIES: [&[Kind]; 4] = [
    &[Kind::TRAFFIC_POLICY],
    &[Kind::experimental(
        "XBackendTrafficPolicy",
        "xbackendtrafficpolicies",
    )],
    &[Kind::experimental("XBackend", "xbackends")],
    &[
        Kind::of_gateway_api("BackendTLSPolicy", "backendtlspolicies"),
        Kind::of_gateway_api("BackendTLSPolicy", "backendtlspolicies").in_version("v1alpha3"),
    ],
];
/// Kinds that others refer to.
const REFERENTS: [Kind; 5] = [
    Kind::GATEWAY,
    Kind::REFERENCE_GRANT,
    Kind::BACKEND,
    Kind::built_in("", "v1", "Service", "services"),
    Kind::built_in("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
];
