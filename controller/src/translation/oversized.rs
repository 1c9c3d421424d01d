//! Resources too large to send to proxies. Their previous version stays in effect, and their
//! object's status reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use translate::ObjectRef;
use xds::delta::Encoded;
use xds::model::ResourceKey;

use crate::status::refusal::object_of;

/// The resources that are too large in their current version, and their sizes.
#[derive(Debug, Default)]
pub(super) struct Oversized {
    sizes: BTreeMap<ResourceKey, usize>,
    /// Objects for which the number of such resources has changed.
    touched: BTreeSet<ObjectRef>,
}

impl Oversized {
    /// Checks the current version of a resource. Returns whether it may be sent.
    pub(super) fn admit(&mut self, key: &ResourceKey, encoded: Option<&Arc<Encoded>>) -> bool {
        let size = encoded.map_or(0, |it| it.bytes.len());
        let is_admitted = size <= MAX_BYTES;
        let before = if is_admitted {
            self.sizes.remove(key)
        } else {
            self.sizes.insert(key.clone(), size)
        };
        if before.is_some() || !is_admitted {
            self.touched.extend(object_of(key));
        }
        is_admitted
    }

    /// The objects that became too large, or are not any more, with advice.
    pub(super) fn take_changed(&mut self) -> Vec<(ObjectRef, Option<Arc<str>>)> {
        let touched = std::mem::take(&mut self.touched).into_iter();
        let checked = touched.map(|object| {
            let mut sizes = self.sizes.iter();
            let found = sizes.find(|(key, _)| object_of(key).as_ref() == Some(&object));
            let why = found.map(|(key, size)| {
                let text = format!(
                    "{} {} takes {size} bytes; the limit is {MAX_BYTES}: split the object",
                    key.kind, key.key
                );
                text.into()
            });
            (object, why)
        });
        checked.collect()
    }
}

/// Limit of one resource in wire form: 1 MiB, about the limit of an object in etcd. A proxy
/// receives a copy of a rule for each listener.
const MAX_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use xds::model::{ObjectName, Resource, Service, ServiceKey};

    use super::*;

    fn encoded(vips: usize) -> Arc<Encoded> {
        let address = |number: usize| {
            let bits = u128::try_from(number).expect("a small number");
            std::net::IpAddr::V6(bits.into())
        };
        Arc::new(Encoded::new(&Resource::from(Service {
            key: ServiceKey::new(&ObjectName::new("app", "shop")),
            vips: (0..vips).map(address).collect(),
            ports: Vec::new(),
        })))
    }

    #[test]
    fn an_oversized_object_is_reported_until_it_is_smaller() {
        let mut oversized = Oversized::default();
        let (small, large) = (encoded(1), encoded(MAX_BYTES / 8));
        assert!(oversized.admit(&small.key, Some(&small)));
        assert_eq!(oversized.take_changed(), []);
        assert!(!oversized.admit(&large.key, Some(&large)));
        let changed = oversized.take_changed();
        let [(object, Some(why))] = &changed[..] else {
            panic!("{changed:?}")
        };
        assert_eq!(object.to_string(), "Service app/shop");
        assert!(why.contains("split the object"), "{why}");
        assert!(oversized.admit(&small.key, Some(&small)));
        assert_eq!(oversized.take_changed(), [(object.clone(), None)]);
        assert!(!oversized.admit(&large.key, Some(&large)));
        assert!(oversized.admit(&large.key, None), "it is gone");
        assert_eq!(oversized.take_changed(), [(object.clone(), None)]);
    }
}
