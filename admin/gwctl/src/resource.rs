//! The resource that a command applies to: `[type/]name`, as in kubectl.

use std::collections::BTreeSet;
use std::str::FromStr;

use admin_types::dump::Bind;
use anyhow::{Result, bail};

use crate::output::shown;

/// A resource named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) kind: ResourceKind,
    /// Without the namespace, which is given with `-n`.
    pub(crate) name: String,
}

/// A kind of resource that has pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceKind {
    Gateway,
    Service,
    Deployment,
    DaemonSet,
    Pod,
}

impl ResourceKind {
    /// The kinds, by kubectl's names for them.
    pub(crate) const ALL: [(Self, &'static [&'static str]); 5] = [
        (
            Self::Gateway,
            &[
                "gateway",
                "gateways",
                "gtw",
                "gateways.gateway.networking.k8s.io",
            ],
        ),
        (Self::Service, &["service", "services", "svc"]),
        (
            Self::Deployment,
            &["deployment", "deployments", "deploy", "deployments.apps"],
        ),
        (
            Self::DaemonSet,
            &["daemonset", "daemonsets", "ds", "daemonsets.apps"],
        ),
        (Self::Pod, &["pod", "pods", "po"]),
    ];
}

impl FromStr for ResourceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let kind = Self::ALL
            .iter()
            .find(|(_, names)| names.contains(&lower.as_str()));
        kind.map(|(kind, _)| *kind).ok_or_else(|| {
            format!(
                "unknown type `{text}`; expected gateway, service, deployment, daemonset or pod (a namespace \
                 is given with -n)"
            )
        })
    }
}

impl FromStr for Resource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(':') {
            let hint = "a name contains no colon; give an address as --local=HOST:PORT, and a URL after --";
            return Err(hint.to_owned());
        }
        let (kind, name) = text.split_once('/').unwrap_or(("gateway", text));
        let kind = kind.parse()?;
        if name.is_empty() || name.contains('/') {
            return Err("expected [TYPE/]NAME; give the namespace with -n".to_owned());
        }
        Ok(Self {
            kind,
            name: name.to_owned(),
        })
    }
}

/// Selects Gateways among those that own `binds`: the named one, or else all in the namespace. None
/// where neither is given, which selects everything.
///
/// # Errors
/// No loaded Gateway matches.
pub(crate) fn gateways<'a>(
    binds: impl IntoIterator<Item = &'a Bind>,
    resource: Option<&Resource>,
    namespace: Option<&str>,
) -> Result<Option<BTreeSet<String>>> {
    if resource.is_none() && namespace.is_none() {
        return Ok(None);
    }
    if let Some(resource) = resource.filter(|it| it.kind != ResourceKind::Gateway) {
        bail!(
            "{:?} {} can be found in a cluster only; with --local or --file, name a Gateway",
            resource.kind,
            resource.name
        );
    }
    let namespace = namespace.unwrap_or("default");
    let name = resource.map(|resource| resource.name.as_str());
    let is_selected = |gateway: &str| match gateway.split_once('/') {
        Some((its, own)) => its == namespace && name.is_none_or(|name| name == own),
        None => false,
    };
    let loaded: BTreeSet<&str> = binds.into_iter().map(|it| it.gateway.as_str()).collect();
    let found = loaded.iter().filter(|it| is_selected(it));
    let found: BTreeSet<String> = found.map(ToString::to_string).collect();
    if !found.is_empty() {
        return Ok(Some(found));
    }
    let selector = format!("{namespace}/{}", name.unwrap_or("*"));
    if loaded.is_empty() {
        bail!("Gateway {selector} is not loaded; no Gateway is");
    }
    let loaded = loaded.into_iter().collect::<Vec<_>>().join(", ");
    let loaded = shown(&loaded);
    bail!("Gateway {selector} is not loaded; loaded are: {loaded} (set the namespace with -n)");
}

#[cfg(test)]
mod tests {
    use super::{Resource, ResourceKind, gateways};

    #[test]
    fn type_names_are_those_of_kubectl() {
        use ResourceKind::{DaemonSet, Deployment, Gateway, Pod, Service};
        for (text, kind) in [
            ("shop", Some(Gateway)),
            ("gateway/shop", Some(Gateway)),
            ("gtw/shop", Some(Gateway)),
            ("Gateway/shop", Some(Gateway)),
            ("svc/shop", Some(Service)),
            ("deploy/shop", Some(Deployment)),
            ("deployments.apps/shop", Some(Deployment)),
            ("ds/shop", Some(DaemonSet)),
            ("po/shop", Some(Pod)),
            ("httproute/shop", None),
            ("gateway/", None),
            ("gateway/a/b", None),
            ("127.0.0.1:15000", None),
        ] {
            let parsed = text.parse::<Resource>().ok();
            let expected = kind.map(|kind| (kind, "shop".to_owned()));
            assert_eq!(parsed.map(|it| (it.kind, it.name)), expected, "{text}");
        }
    }

    #[test]
    fn without_a_cluster_only_a_gateway_can_be_named() {
        let pod = "pod/edge".parse::<Resource>().expect("a resource");
        let error = gateways([], Some(&pod), None).expect_err("no cluster");
        assert!(error.to_string().contains("in a cluster only"), "{error}");
    }
}
