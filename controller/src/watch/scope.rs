//! The selected namespaces, updated as their labels change.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use translate::Object;
use xds::model::ObjectName;

use crate::selectors::Selectors;

/// The namespaces whose objects are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    Everything,
    Selected(Arc<BTreeSet<Arc<str>>>),
}

impl Scope {
    /// No namespace.
    pub(super) fn none() -> Self {
        Self::Selected(Arc::default())
    }

    pub(super) fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Selected(namespaces) => namespaces.contains(namespace),
        }
    }

    /// The namespaces of both.
    pub(super) fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Selected(own), Self::Selected(other)) => {
                Self::Selected(Arc::new(own.union(other).cloned().collect()))
            }
            _ => Self::Everything,
        }
    }

    /// The namespaces that are in both.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Selected(own), Self::Selected(other)) => {
                Self::Selected(Arc::new(own.intersection(other).cloned().collect()))
            }
            (Self::Everything, selected) | (selected, Self::Everything) => selected.clone(),
        }
    }

    /// Whether it includes all of the other.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everything, _) => true,
            (Self::Selected(_), Self::Everything) => false,
            (Self::Selected(own), Self::Selected(other)) => own.is_superset(other),
        }
    }
}

/// The scope for the other watches; `None` until all namespaces are known.
pub(super) type Scopes = watch::Receiver<Option<Scope>>;

#[derive(Debug)]
pub(super) struct Selection {
    selectors: Selectors,
    selected: BTreeSet<Arc<str>>,
    is_complete: bool,
    scope: watch::Sender<Option<Scope>>,
}

impl Selection {
    pub(super) fn new(selectors: Selectors) -> (Self, Scopes) {
        let everything = selectors.select_everything().then_some(Scope::Everything);
        let (scope, scopes) = watch::channel(everything);
        let selection = Self {
            selectors,
            selected: BTreeSet::new(),
            is_complete: false,
            scope,
        };
        (selection, scopes)
    }

    /// Adds or updates a namespace.
    pub(super) fn upsert(&mut self, object: &Object) {
        let Object::Namespace(namespace) = object else {
            return;
        };
        let metadata = &namespace.metadata;
        let name = Arc::clone(&metadata.name.name);
        let is_changed = if self.selectors.select(&metadata.labels) {
            self.selected.insert(name)
        } else {
            self.selected.remove(&name)
        };
        if is_changed {
            self.publish();
        }
    }

    pub(super) fn delete(&mut self, namespace: &ObjectName) {
        if self.selected.remove(&namespace.name) {
            self.publish();
        }
    }

    /// All namespaces are known.
    pub(super) fn complete(&mut self) {
        if !self.is_complete {
            self.is_complete = true;
            self.publish();
        }
    }

    fn publish(&self) {
        if self.is_complete && !self.selectors.select_everything() {
            let selected = Arc::new(self.selected.clone());
            self.scope.send_replace(Some(Scope::Selected(selected)));
        }
    }
}
