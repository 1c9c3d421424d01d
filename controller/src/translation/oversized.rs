//! Resources too large to send to proxies. Their previous version stays in effect, and their
//! object's status reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use translate::budgets::Budget;
use translate::{BudgetUse, ObjectRef};
use xds::delta::Encoded;
use xds::model::ResourceKey;

use crate::status::events::object_of;

/// The resources that are too large in their current version, and their sizes.
#[derive(Debug, Default)]
pub(super) struct Oversized {
    sizes: BTreeMap<ResourceKey, usize>,
    /// The same resources by object.
    by_object: BTreeMap<ObjectRef, BTreeSet<ResourceKey>>,
    /// Objects for which the number of such resources has changed.
    touched: BTreeSet<ObjectRef>,
}

impl Oversized {
    /// Checks the current version of a resource. Returns whether it may be sent.
    pub(super) fn admit(&mut self, key: &ResourceKey, encoded: Option<&Arc<Encoded>>) -> bool {
        let size = encoded.map_or(0, |it| it.bytes.len());
        let is_admitted = size as u64 <= limit();
        let before = if is_admitted {
            self.sizes.remove(key)
        } else {
            self.sizes.insert(key.clone(), size)
        };
        if (before.is_some() || !is_admitted)
            && let Some(object) = object_of(key)
        {
            self.touched.insert(object.clone());
            self.set_of_object(object, key, is_admitted);
        }
        is_admitted
    }

    fn set_of_object(&mut self, object: ObjectRef, key: &ResourceKey, is_admitted: bool) {
        if !is_admitted {
            self.by_object
                .entry(object)
                .or_default()
                .insert(key.clone());
        } else if let Some(keys) = self.by_object.get_mut(&object) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_object.remove(&object);
            }
        }
    }

    /// What these resources use of their budget.
    pub(super) fn used(&self) -> BudgetUse {
        let largest = self.sizes.values().max().copied().unwrap_or_default();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share needs no more precision"
        )]
        let share = largest as f64 / limit() as f64;
        BudgetUse {
            share,
            refused: self.by_object.len() as u64,
        }
    }

    /// The objects that became too large, or are not any more, with advice.
    pub(super) fn take_changed(&mut self) -> Vec<(ObjectRef, Option<Arc<str>>)> {
        let touched = std::mem::take(&mut self.touched).into_iter();
        let checked = touched.map(|object| {
            let keys = self.by_object.get(&object);
            let first = keys.and_then(BTreeSet::first);
            let found = first.and_then(|key| self.sizes.get_key_value(key));
            let why = found.map(|(key, size)| {
                let text = format!(
                    "{} {} takes {size} bytes; the limit is {}: split the object",
                    key.kind,
                    key.key,
                    limit()
                );
                text.into()
            });
            (object, why)
        });
        checked.collect()
    }
}

fn limit() -> u64 {
    Budget::ResourceBytes.definition().default
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use xds::model::{ObjectName, Resource, Service, ServiceKey, SessionAffinity};

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
            session_affinity: SessionAffinity::None,
        })))
    }

    /// To compare each with each would take minutes.
    #[test]
    fn many_oversized_objects_take_time_in_proportion() {
        let mut oversized = Oversized::default();
        let large = encoded(1 << 17);
        let key = |number: usize| ResourceKey {
            kind: large.key.kind,
            key: format!("Service/app/shop-{number}").into(),
        };
        let begun = std::time::Instant::now();
        for number in 0..COUNT {
            assert!(!oversized.admit(&key(number), Some(&large)));
        }
        assert_eq!(oversized.take_changed().len(), COUNT);
        assert_eq!(oversized.used().refused, COUNT as u64);
        for number in 0..COUNT {
            assert!(oversized.admit(&key(number), None));
        }
        assert!(
            oversized
                .take_changed()
                .iter()
                .all(|(_, why)| why.is_none())
        );
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?}");
        assert!(oversized.by_object.is_empty());
    }

    const COUNT: usize = 20_000;

    #[test]
    fn an_oversized_object_is_reported_until_it_is_smaller() {
        let mut oversized = Oversized::default();
        let (small, large) = (encoded(1), encoded(1 << 17));
        assert!(oversized.admit(&small.key, Some(&small)));
        assert_eq!(oversized.take_changed(), []);
        assert!(!oversized.admit(&large.key, Some(&large)));
        let changed = oversized.take_changed();
        let [(object, Some(why))] = &changed[..] else {
            panic!("{changed:?}")
        };
        assert_eq!(object.to_string(), "Service app/shop");
        assert!(why.contains("split the object"), "{why}");
        assert_eq!(oversized.used().refused, 1);
        assert!(oversized.used().share > 1.0);
        assert!(oversized.admit(&small.key, Some(&small)));
        assert_eq!(oversized.take_changed(), [(object.clone(), None)]);
        assert!(!oversized.admit(&large.key, Some(&large)));
        assert!(oversized.admit(&large.key, None), "it is gone");
        assert_eq!(oversized.take_changed(), [(object.clone(), None)]);
    }
}
