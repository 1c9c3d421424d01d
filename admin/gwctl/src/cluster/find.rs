//! The pods of a resource.

use std::collections::BTreeMap;
use std::fmt::Debug;

use anyhow::{Result, bail};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::DynamicObject;
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use translate::naming::{GATEWAY_NAME, child_name};

use super::pod::{PodState, reachable};
use super::{Cluster, Kind, Scope};
use crate::resource::{Resource, ResourceKind};

/// Pods of a resource.
#[derive(Debug, Clone)]
pub(crate) struct SelectedPods {
    /// The resource: `Gateway default/edge`.
    pub(crate) owner: String,
    /// `namespace/name` of the Gateway, if the resource is one.
    pub(crate) gateway: Option<String>,
    pub(crate) pods: Vec<PodState>,
}

impl SelectedPods {
    /// The pods that can be reached, the best first; only the named one where one is named.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn reachable(&self, named: Option<&str>) -> Result<Vec<&PodState>> {
        let is_meant = |it: &&PodState| named.is_none_or(|name| name == it.name);
        let pods: Vec<&PodState> = self.pods.iter().filter(is_meant).collect();
        if let (Some(name), []) = (named, pods.as_slice()) {
            let names: Vec<&str> = self.pods.iter().map(|it| it.name.as_str()).collect();
            let (owner, names) = (&self.owner, or_none(&names));
            bail!("{owner} has no pod {name}; its pods are: {names}");
        }
        let reachable = reachable(&pods);
        if reachable.is_empty() {
            bail!("{}", self.unreachable(&pods));
        }
        Ok(reachable)
    }

    fn unreachable(&self, pods: &[&PodState]) -> String {
        let owner = &self.owner;
        let advice = match &self.gateway {
            Some(gateway) => {
                let (namespace, name) = gateway.split_once('/').unwrap_or_default();
                format!("`gwctl status {name} -n {namespace}` shows why")
            }
            None => "`kubectl describe` shows why".to_owned(),
        };
        if pods.is_empty() {
            return format!("{owner} has no pods; {advice}");
        }
        let states = pods.iter().map(|it| format!("{} is {}", it.name, it.state));
        let states = states.collect::<Vec<_>>().join(", ");
        format!("no pod of {owner} is running: {states}; {advice}")
    }
}

impl Cluster {
    /// The pods of a resource; of the only Gateway in the namespace where none is given.
    ///
    /// # Errors
    /// There is no such resource, or it cannot be read.
    pub(crate) fn find(&self, resource: Option<&Resource>) -> Result<SelectedPods> {
        let Some(resource) = resource else {
            return self.find_gateway(&self.only_gateway()?.name_any());
        };
        let name = &resource.name;
        match resource.kind {
            ResourceKind::Gateway => {
                self.gateway(name)?;
                self.find_gateway(name)
            }
            ResourceKind::Service => {
                let api: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
                let service = self.existing(&api, "Service", name)?;
                let selector = service.spec.and_then(|it| it.selector);
                let labels = selector.map(|it| all_of(&it)).unwrap_or_default();
                self.find_by_labels("Service", name, &labels)
            }
            ResourceKind::Deployment => {
                let api: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
                let deployment = self.existing(&api, "Deployment", name)?;
                let selector = deployment.spec.selector;
                self.find_by_labels("Deployment", name, &labels(&selector))
            }
            ResourceKind::DaemonSet => {
                let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), &self.namespace);
                let daemon_set = self.existing(&api, "DaemonSet", name)?;
                let selector = daemon_set.spec.selector;
                self.find_by_labels("DaemonSet", name, &labels(&selector))
            }
            ResourceKind::Pod => {
                let pod = self.existing(&self.pods(), "pod", name)?;
                Ok(SelectedPods {
                    owner: self.title("pod", name),
                    gateway: None,
                    pods: vec![PodState::from(&pod)],
                })
            }
        }
    }

    fn find_gateway(&self, name: &str) -> Result<SelectedPods> {
        let labels = format!("{GATEWAY_NAME}={}", child_name(name));
        let found = self.find_by_labels("Gateway", name, &labels)?;
        Ok(SelectedPods {
            gateway: Some(format!("{}/{name}", self.namespace)),
            ..found
        })
    }

    fn find_by_labels(&self, kind: &str, name: &str, labels: &str) -> Result<SelectedPods> {
        let owner = self.title(kind, name);
        if labels.is_empty() {
            bail!("{owner} selects no pods; name a Gateway, or a pod as pod/NAME");
        }
        let what = format!("pods in namespace {}", self.namespace);
        let pods = self.list(&self.pods(), &what, labels)?;
        let pods = pods.unwrap_or_default();
        Ok(SelectedPods {
            owner,
            gateway: None,
            pods: pods.iter().map(PodState::from).collect(),
        })
    }

    /// A Gateway of the namespace.
    ///
    /// # Errors
    /// There is none of this name; the message lists those that there are.
    pub(crate) fn gateway(&self, name: &str) -> Result<DynamicObject> {
        let gateways = self.objects(Kind::GATEWAY, Scope::Namespace);
        match self.get(&gateways, "Gateway", name)? {
            Some(gateway) => Ok(gateway),
            None => bail!(
                "there is no {}; {}",
                self.title("Gateway", name),
                self.others()?
            ),
        }
    }

    /// All Gateways of the namespace.
    ///
    /// # Errors
    /// They cannot be listed, or the cluster has no Gateway API.
    pub(crate) fn gateways(&self) -> Result<Vec<DynamicObject>> {
        let gateways = self.objects(Kind::GATEWAY, Scope::Namespace);
        let what = format!("Gateways in namespace {}", self.namespace);
        match self.list(&gateways, &what, "")? {
            Some(gateways) => Ok(gateways),
            None => bail!("the cluster has no Gateway API: install its CRDs"),
        }
    }

    fn only_gateway(&self) -> Result<DynamicObject> {
        let mut gateways = self.gateways()?;
        let namespace = &self.namespace;
        match (gateways.pop(), gateways.as_slice()) {
            (Some(gateway), []) => Ok(gateway),
            (None, _) => bail!(
                "there is no Gateway in namespace {namespace}; {}",
                self.others()?
            ),
            (Some(last), others) => {
                let names = others.iter().chain([&last]).map(ResourceExt::name_any);
                let names = names.collect::<Vec<_>>().join(", ");
                bail!("namespace {namespace} has several Gateways; name one: {names}")
            }
        }
    }

    /// Which Gateways there are: in the namespace, or else in others.
    fn others(&self) -> Result<String> {
        let here: Vec<String> = self.gateways()?.iter().map(ResourceExt::name_any).collect();
        if !here.is_empty() {
            return Ok(format!("there are: {}", here.join(", ")));
        }
        let everywhere = self.objects(Kind::GATEWAY, Scope::Cluster);
        // Users without permission to list other namespaces get the message for their own.
        let all = self.list(&everywhere, "Gateways in all namespaces", "");
        let all = all.ok().flatten().unwrap_or_default();
        let names = all.iter().map(|it| {
            let namespace = it.namespace().unwrap_or_default();
            format!("{namespace}/{}", it.name_any())
        });
        let names: Vec<String> = names.take(MAX_NAMES).collect();
        Ok(if names.is_empty() {
            format!("namespace {} has none (set it with -n)", self.namespace)
        } else {
            let names = names.join(", ");
            format!("other namespaces have: {names} (set the namespace with -n)")
        })
    }

    /// Names of the objects of a kind in the namespace.
    ///
    /// # Errors
    /// They cannot be listed.
    pub(crate) fn names(&self, kind: ResourceKind) -> Result<Vec<String>> {
        let (client, namespace) = (self.client.clone(), &self.namespace);
        match kind {
            ResourceKind::Gateway => self.names_of(&self.objects(Kind::GATEWAY, Scope::Namespace)),
            ResourceKind::Service => self.names_of(&Api::<Service>::namespaced(client, namespace)),
            ResourceKind::Deployment => {
                self.names_of(&Api::<Deployment>::namespaced(client, namespace))
            }
            ResourceKind::DaemonSet => {
                self.names_of(&Api::<DaemonSet>::namespaced(client, namespace))
            }
            ResourceKind::Pod => self.names_of(&self.pods()),
        }
    }

    /// Names of the namespaces.
    ///
    /// # Errors
    /// They cannot be listed.
    pub(crate) fn namespaces(&self) -> Result<Vec<String>> {
        self.names_of(&Api::<Namespace>::all(self.client.clone()))
    }

    fn names_of<K>(&self, api: &Api<K>) -> Result<Vec<String>>
    where
        K: kube::Resource + Clone + Debug + DeserializeOwned,
    {
        let objects = self.list(api, "names", "")?.unwrap_or_default();
        Ok(objects.iter().map(ResourceExt::name_any).collect())
    }

    fn existing<K>(&self, api: &Api<K>, kind: &str, name: &str) -> Result<K>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        match self.get(api, kind, name)? {
            Some(object) => Ok(object),
            None => bail!(
                "there is no {} (set the namespace with -n)",
                self.title(kind, name)
            ),
        }
    }

    fn title(&self, kind: &str, name: &str) -> String {
        format!("{kind} {}/{name}", self.namespace)
    }
}

/// Names that an error lists.
const MAX_NAMES: usize = 10;

fn or_none(names: &[&str]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}

fn all_of(labels: &BTreeMap<String, String>) -> String {
    let pairs = labels.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(",")
}

/// A selector in the syntax of list requests.
fn labels(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.as_ref().map(all_of);
    let expressions = selector.match_expressions.iter().flatten().map(|it| {
        let (key, values) = (&it.key, it.values.clone().unwrap_or_default().join(","));
        match it.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        }
    });
    let parts = labels
        .into_iter()
        .filter(|it| !it.is_empty())
        .chain(expressions);
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::labels;

    #[test]
    fn label_selectors_are_formatted_for_list_requests() {
        let selector = json!({"matchLabels": {"a": "b", "c": "d"}, "matchExpressions": [
            {"key": "e", "operator": "In", "values": ["f", "g"]},
            {"key": "h", "operator": "NotIn", "values": ["i"]},
            {"key": "j", "operator": "Exists"},
            {"key": "k", "operator": "DoesNotExist"}]});
        let selector = serde_json::from_value(selector).expect("a selector");
        assert_eq!(labels(&selector), "a=b,c=d,e in (f,g),h notin (i),j,!k");
    }
}
