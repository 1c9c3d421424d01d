//! The Gateway that a command applies to: `[type/]name`, as in kubectl.

use std::collections::BTreeSet;
use std::str::FromStr;

use admin_types::dump::Bind;
use anyhow::{Result, bail};

use crate::output::shown;

/// A Gateway named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Without the namespace, which is given with `-n`.
    pub(crate) name: String,
}

/// kubectl's names of the Gateway kind.
const GATEWAY: [&str; 4] = [
    "gateway",
    "gateways",
    "gtw",
    "gateways.gateway.networking.k8s.io",
];

impl FromStr for Resource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(':') {
            let hint = "a name contains no colon; give an address as --local=HOST:PORT, and a URL after --";
            return Err(hint.to_owned());
        }
        let (kind, name) = text.split_once('/').unwrap_or(("gateway", text));
        if !GATEWAY.contains(&kind.to_ascii_lowercase().as_str()) {
            return Err(format!("unknown type `{kind}`; expected gateway/NAME"));
        }
        if name.is_empty() || name.contains('/') {
            return Err("expected [gateway/]NAME; give the namespace with -n".to_owned());
        }
        Ok(Self {
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
    use super::Resource;

    #[test]
    fn type_names_are_those_of_kubectl() {
        for (text, name) in [
            ("shop", Some("shop")),
            ("gateway/shop", Some("shop")),
            ("gtw/shop", Some("shop")),
            ("Gateway/shop", Some("shop")),
            ("httproute/shop", None),
            ("gateway/", None),
            ("gateway/a/b", None),
            ("127.0.0.1:15000", None),
        ] {
            let parsed = text.parse::<Resource>().ok();
            assert_eq!(parsed.map(|it| it.name).as_deref(), name, "{text}");
        }
    }
}
