//! What a command is about: `[type/]name`, as kubectl has it.

use std::str::FromStr;

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

impl Resource {
    /// `namespace/name`, as a dump has it.
    pub(crate) fn within(&self, namespace: &str) -> String {
        format!("{namespace}/{}", self.name)
    }
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
