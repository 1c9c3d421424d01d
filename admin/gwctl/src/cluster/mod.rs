//! Gateways in a cluster: which pods they run in, and how to reach a port of one.
//!
//! `connect` finds the cluster, `find` the pods of a resource; `pod` knows their states, `forward` connects
//! to their ports, and `refusal` explains errors. Every request has a timeout.

mod connect;
mod find;
mod forward;
mod pod;
mod refusal;

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

pub(crate) use self::find::SelectedPods;
pub(crate) use self::forward::PodPort;
pub(crate) use self::pod::PodState;
use self::refusal::explain;
use crate::args::SourceArgs;
use crate::client::DEFAULT_TIMEOUT;
use crate::runtime::Blocking;

/// A cluster, and a namespace of it.
pub(crate) struct Cluster {
    client: Client,
    /// URL of the API server.
    address: String,
    namespace: String,
    timeout: Duration,
    runtime: Blocking,
}

impl Cluster {
    /// The cluster of the command line, without connecting yet.
    ///
    /// # Errors
    /// There is none, or its kubeconfig is invalid.
    pub(crate) fn new(args: &SourceArgs, runtime: &Blocking) -> Result<Self> {
        let timeout = args.timeout.unwrap_or(DEFAULT_TIMEOUT);
        runtime.block_on(async {
            let config = connect::config(args, timeout).await?;
            let address = config.cluster_url.to_string();
            let namespace = args.namespace.as_ref().unwrap_or(&config.default_namespace);
            let namespace = namespace.clone();
            let client = Client::try_from(config);
            let client = client.map_err(|error| explain(error, "connect", &address))?;
            Ok(Self {
                client,
                address,
                namespace,
                timeout,
                runtime: runtime.clone(),
            })
        })
    }

    /// The namespace of `-n`, or that of the context.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A port of a pod in the namespace.
    pub(crate) fn port(&self, pod: &str, port: u16) -> PodPort {
        PodPort {
            pods: self.pods(),
            namespace: self.namespace.clone(),
            pod: pod.to_owned(),
            port,
        }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// An object of the namespace; None where there is none of this name, or no such kind.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn get<K>(&self, api: &Api<K>, kind: &str, name: &str) -> Result<Option<K>>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let what = format!("read {kind} {}/{name}", self.namespace);
        self.request(&what, api.get_opt(name))
    }

    /// The objects of a kind; None where the cluster has no such kind.
    ///
    /// # Errors
    /// They cannot be listed.
    pub(crate) fn list<K>(&self, api: &Api<K>, what: &str, labels: &str) -> Result<Option<Vec<K>>>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let parameters = ListParams::default().labels(labels);
        let listed = async {
            match api.list(&parameters).await {
                Ok(list) => Ok(Some(list.items)),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.request(&format!("list {what}"), listed)
    }

    /// Applies an object, in the namespace that it names, by server-side apply, which leaves other fields and those
    /// of other owners unchanged. Returns `false` if it was already so.
    ///
    /// # Errors
    ///
    /// It cannot be written, or one of the fields has another owner.
    pub(crate) fn apply(&self, kind: Kind, object: &DynamicObject) -> Result<bool> {
        let name = object.name_any();
        let namespace = object.namespace().unwrap_or_else(|| self.namespace.clone());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &namespace, &kind.resource());
        let place = format!("{} {namespace}/{name}", kind.name);
        let before = self.request(&format!("read {place}"), api.get_opt(&name))?;
        let what = format!("apply {place}");
        let (parameters, patch) = (PatchParams::apply(FIELD_MANAGER), Patch::Apply(object));
        let after = self.request(&what, api.patch(&name, &parameters, &patch))?;
        let before = before.and_then(|object| object.resource_version());
        Ok(before.is_none() || before != after.resource_version())
    }

    /// Objects of a kind that only the cluster knows: in the namespace, or in all.
    pub(crate) fn objects(&self, kind: Kind, scope: Scope) -> Api<DynamicObject> {
        let resource = kind.resource();
        match scope {
            Scope::Namespace => {
                Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
            }
            Scope::Cluster => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn request<T>(&self, what: &str, request: impl Future<Output = kube::Result<T>>) -> Result<T> {
        let (limit, address) = (self.timeout, &self.address);
        let answer = self
            .runtime
            .block_on(async { timeout(limit, request).await });
        let answer = answer.map_err(|_| {
            anyhow!(
                "no response from the API server at {address} within {limit:?}; set a longer timeout \
                 with --timeout"
            )
        })?;
        answer.map_err(|error| explain(error, what, address))
    }
}

/// Names of the contexts of the kubeconfig.
///
/// # Errors
/// It cannot be read.
pub(crate) fn contexts(path: Option<&Path>) -> Result<Vec<String>> {
    let contexts = connect::kubeconfig(path)?.map_or_else(Vec::new, |it| it.contexts);
    Ok(contexts.into_iter().map(|it| it.name).collect())
}

/// The scope of a search for objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// In the namespace of the command line.
    Namespace,
    /// In all namespaces, or outside of them.
    Cluster,
}

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    /// Name, as in an object's `kind`.
    pub(crate) name: &'static str,
    /// Name in the plural.
    pub(crate) plural: &'static str,
}

impl Kind {
    /// A kind of Gateway API.
    pub(crate) const fn of_gateway_api(name: &'static str, plural: &'static str) -> Self {
        Self {
            group: "gateway.networking.k8s.io",
            version: "v1",
            name,
            plural,
        }
    }

    /// An experimental kind of Gateway API.
    pub(crate) const fn experimental(name: &'static str, plural: &'static str) -> Self {
        Self {
            group: "gateway.networking.x-k8s.io",
            version: "v1alpha1",
            name,
            plural,
        }
    }

    /// A kind that every cluster has.
    pub(crate) const fn built_in(
        group: &'static str,
        version: &'static str,
        name: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            name,
            plural,
        }
    }

    /// The same kind, as a client of the API server addresses it.
    fn resource(self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group, self.version, self.name);
        ApiResource::from_gvk_with_plural(&gvk, self.plural)
    }

    /// The same in another version.
    pub(crate) const fn in_version(self, version: &'static str) -> Self {
        Self { version, ..self }
    }

    /// A kind of this project's API group.
    const fn of_ours(name: &'static str, plural: &'static str) -> Self {
        Self {
            group: "gateway-system.io",
            version: "v1alpha1",
            name,
            plural,
        }
    }

    pub(crate) const GATEWAY: Self = Self::of_gateway_api("Gateway", "gateways");
    pub(crate) const HTTP_ROUTE: Self = Self::of_gateway_api("HTTPRoute", "httproutes");
    pub(crate) const GRPC_ROUTE: Self = Self::of_gateway_api("GRPCRoute", "grpcroutes");
    /// In the version that all releases of Gateway API have.
    pub(crate) const REFERENCE_GRANT: Self =
        Self::of_gateway_api("ReferenceGrant", "referencegrants").in_version("v1beta1");
    pub(crate) const TRAFFIC_POLICY: Self = Self::of_ours("TrafficPolicy", "trafficpolicies");
    pub(crate) const BACKEND: Self = Self::of_ours("Backend", "backends");
}

/// The owner of the fields that we apply, as the API server notes it.
const FIELD_MANAGER: &str = "gwctl";
