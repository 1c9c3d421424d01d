//! Paths of the Kubernetes API.

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ApiPath {
    /// Group and version, such as `apps/v1`.
    pub(super) version: String,
    /// The kind in the plural.
    pub(super) plural: String,
    /// Empty for kinds without one, and for all namespaces.
    pub(super) namespace: String,
    /// Empty for a whole collection.
    pub(super) name: String,
    pub(super) subresource: String,
}

impl ApiPath {
    pub(super) fn parse(path: &str) -> Self {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => panic!("no path of the API: {path}"),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, plural, rest @ ..] => {
                (*namespace, [&[*plural], rest].concat())
            }
            rest => ("", rest.to_vec()),
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        Self {
            version,
            plural: part(0),
            namespace: namespace.to_owned(),
            name: part(1),
            subresource: part(2),
        }
    }

    /// Whether this is the path of an object in that collection.
    pub(super) fn is_in(&self, collection: &Self) -> bool {
        (&self.version, &self.plural) == (&collection.version, &collection.plural)
            && (collection.namespace.is_empty() || collection.namespace == self.namespace)
    }

    /// The object, where this is the path of a subresource.
    pub(super) fn object(&self) -> Self {
        Self {
            subresource: String::new(),
            ..self.clone()
        }
    }
}

#[test]
fn api_paths_are_parsed() {
    let path = ApiPath::parse("/apis/apps/v1/namespaces/a/deployments/b/status");
    let parts = [
        &path.version,
        &path.namespace,
        &path.plural,
        &path.name,
        &path.subresource,
    ];
    assert_eq!(parts, ["apps/v1", "a", "deployments", "b", "status"]);
    assert!(
        path.object()
            .is_in(&ApiPath::parse("/apis/apps/v1/deployments"))
    );
    assert!(!path.is_in(&ApiPath::parse("/apis/apps/v1/namespaces/c/deployments")));
    let path = ApiPath::parse("/api/v1/namespaces/a");
    assert_eq!((&*path.plural, &*path.name), ("namespaces", "a"));
}
