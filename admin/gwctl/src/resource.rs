//! What a command is about: `[type/]name`, as kubectl has it.

use std::collections::BTreeSet;
use std::str::FromStr;

use admin_types::dump::Bind;
use anyhow::{Result, bail};

use crate::output::shown;

/// A Gateway by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Its name, without its namespace.
    pub(crate) name: String,
}

/// kubectl's names for a Gateway.
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
            let hint =
                "no name has a colon; give an address with --local=HOST:PORT, a URL after --";
            return Err(hint.to_owned());
        }
        let (kind, name) = text.split_once('/').unwrap_or(("gateway", text));
        if !GATEWAY.contains(&kind.to_ascii_lowercase().as_str()) {
            return Err(format!("`{kind}` is not a type; write gateway/NAME"));
        }
        if name.is_empty() || name.contains('/') {
            return Err("write [gateway/]NAME, and its namespace with -n".to_owned());
        }
        Ok(Self {
            name: name.to_owned(),
        })
    }
}

/// Those of the Gateways with these binds that a command is about: the named one, or else all in the namespace;
/// nothing where neither is given, and it is about everything.
///
/// # Errors
/// There is none of them.
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
    let is_asked = |gateway: &str| match gateway.split_once('/') {
        Some((its, own)) => its == namespace && name.is_none_or(|name| name == own),
        None => false,
    };
    let loaded: BTreeSet<&str> = binds.into_iter().map(|it| it.gateway.as_str()).collect();
    let found = loaded.iter().filter(|it| is_asked(it));
    let found: BTreeSet<String> = found.map(ToString::to_string).collect();
    if !found.is_empty() {
        return Ok(Some(found));
    }
    let asked = format!("{namespace}/{}", name.unwrap_or("*"));
    if loaded.is_empty() {
        bail!("no Gateway {asked} is loaded; none is");
    }
    let loaded = loaded.into_iter().collect::<Vec<_>>().join(", ");
    let loaded = shown(&loaded);
    bail!("no Gateway {asked} is loaded; there are: {loaded} (a namespace is given with -n)");
}

#[cfg(test)]
mod tests {
    use super::Resource;

    #[test]
    fn names_are_kubectls() {
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
