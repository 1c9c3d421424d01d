//! Labels of namespaces, for the selectors of listeners.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use xds::model::ObjectName;

use crate::api::LabelSelector;
use crate::store::Store;

/// The namespaces that hold routes or ListenerSets, with their labels.
pub(crate) struct Namespaces<'a>(BTreeMap<&'a str, Cow<'a, BTreeMap<String, String>>>);

impl<'a> Namespaces<'a> {
    /// One that is not in the store has the label that every namespace has, and no other.
    pub(crate) fn of(store: &'a Store) -> Self {
        let routes = (store.http_routes.keys())
            .chain(store.grpc_routes.keys())
            .chain(store.tls_routes.keys())
            .chain(store.tcp_routes.keys())
            .chain(store.udp_routes.keys());
        let attaching = routes.chain(store.listener_sets.keys());
        let names: BTreeSet<&str> = attaching.map(|name| &*name.namespace).collect();
        let labels = |name: &'a str| {
            let known = store.namespaces.get(&ObjectName::new("", name));
            let mut labels = known.map_or_else(Cow::default, |namespace| {
                Cow::Borrowed(&namespace.metadata.labels)
            });
            if labels.get(NAME_LABEL).map(String::as_str) != Some(name) {
                labels
                    .to_mut()
                    .insert(NAME_LABEL.to_owned(), name.to_owned());
            }
            (name, labels)
        };
        Self(names.into_iter().map(labels).collect())
    }

    /// Those that a selector selects.
    pub(crate) fn selected(&self, selector: &LabelSelector) -> BTreeSet<&'a str> {
        self.0
            .iter()
            .filter(|(_, labels)| selector.selects(labels))
            .map(|(name, _)| *name)
            .collect()
    }
}

/// Set by the API server on every namespace (KEP-2161).
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
