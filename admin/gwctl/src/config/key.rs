//! Keys of resources, such as `Service/default/shop`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// The rule number of a route, the section name of a listener.
    pub(crate) part: &'a str,
}

impl<'a> Key<'a> {
    /// Splits a key. Missing parts are empty.
    pub(crate) fn parse(key: &'a str) -> Self {
        let mut parts = key.splitn(5, '/');
        let mut part = || parts.next().unwrap_or_default();
        Self {
            kind: part(),
            namespace: part(),
            name: part(),
            part: part(),
        }
    }

    /// The key of the object: `kind/namespace/name`.
    pub(crate) fn object(&self) -> String {
        let Self {
            kind,
            namespace,
            name,
            ..
        } = self;
        format!("{kind}/{namespace}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn resource_keys_are_split_into_kind_namespace_name_and_part() {
        let key = Key::parse("HTTPRoute/web/shop/2/Gateway/web/edge/http");
        assert_eq!(
            (key.kind, key.namespace, key.name, key.part),
            ("HTTPRoute", "web", "shop", "2")
        );
        assert_eq!(key.object(), "HTTPRoute/web/shop");
        assert_eq!(Key::parse("").name, "");
    }
}
