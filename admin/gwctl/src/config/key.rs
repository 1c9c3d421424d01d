//! The parts of a key: kind, namespace, name, and what follows.

/// A key of an object, such as `Service/default/shop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key<'a> {
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// Of a route, the number of its rule; of a listener, its section name.
    pub(super) part: &'a str,
}

impl<'a> Key<'a> {
    /// Takes a key apart. What is missing is empty.
    pub(super) fn of(key: &'a str) -> Self {
        let mut parts = key.splitn(5, '/');
        let mut part = || parts.next().unwrap_or_default();
        Self {
            kind: part(),
            namespace: part(),
            name: part(),
            part: part(),
        }
    }

    /// `kind/namespace/name`.
    pub(super) fn object(&self) -> String {
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
    fn keys_come_apart() {
        let key = Key::of("HTTPRoute/web/shop/2/Gateway/web/edge/http");
        assert_eq!(
            (key.kind, key.namespace, key.name, key.part),
            ("HTTPRoute", "web", "shop", "2")
        );
        assert_eq!(key.object(), "HTTPRoute/web/shop");
        assert_eq!(Key::of("").name, "");
    }
}
