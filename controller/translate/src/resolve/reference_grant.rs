//! Whether an object may refer to one in another namespace.

use std::collections::{HashMap, HashSet};

use crate::api::Resource;
use crate::store::Store;

/// All grants, by who may refer to what where.
pub(crate) struct Grants<'a>(HashMap<Way<'a>, Names<'a>>);

#[derive(PartialEq, Eq, Hash)]
struct Way<'a> {
    from: (&'a str, &'a str, &'a str),
    to: (&'a str, &'a str, &'a str),
}

enum Names<'a> {
    Every,
    Listed(HashSet<&'a str>),
}

/// The end of a reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Referent<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> Grants<'a> {
    pub(crate) fn of(store: &'a Store) -> Self {
        let mut grants = HashMap::new();
        for (name, grant) in &store.reference_grants {
            for from in &grant.spec.from {
                for to in &grant.spec.to {
                    let way = Way {
                        from: (&from.group, &from.kind, &from.namespace),
                        to: (&to.group, &to.kind, &name.namespace),
                    };
                    let names = grants
                        .entry(way)
                        .or_insert_with(|| Names::Listed(HashSet::new()));
                    match (to.name.as_deref().filter(|name| !name.is_empty()), names) {
                        (None, names) => *names = Names::Every,
                        (Some(name), Names::Listed(listed)) => {
                            listed.insert(name);
                        }
                        (Some(_), Names::Every) => {}
                    }
                }
            }
        }
        Self(grants)
    }

    /// Whether an object of kind `T` in `namespace` may refer to `to`. Its own namespace needs no
    /// grant.
    pub(crate) fn permit<T: Resource>(&self, namespace: &str, to: Referent<'_>) -> bool {
        self.permit_kind((T::GROUP, T::KIND), namespace, to)
    }

    /// [`Self::permit`] for a kind that is known by its group and name.
    pub(crate) fn permit_kind(
        &self,
        (group, kind): (&str, &str),
        namespace: &str,
        to: Referent<'_>,
    ) -> bool {
        if namespace == to.namespace {
            return true;
        }
        let way = Way {
            from: (group, kind, namespace),
            to: (to.group, to.kind, to.namespace),
        };
        match self.0.get(&way) {
            None => false,
            Some(Names::Every) => true,
            Some(Names::Listed(names)) => names.contains(to.name),
        }
    }
}
