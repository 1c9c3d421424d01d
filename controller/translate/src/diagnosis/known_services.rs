//! What was found about Services. Many routes have the same backend: each is examined once.

use std::cell::RefCell;
use std::num::NonZeroU16;

use xds::fast_hash::{FastHashMap, FastHashSet};
use xds::model::ObjectName;

use crate::objects::kinds::ObjectKind;
use crate::objects::store::Store;
use crate::status::Reason;

/// What was found about Services.
#[derive(Default)]
pub(super) struct KnownServices {
    /// Why ports have no endpoint, for readers of the Service's namespace and of others.
    pub(super) empty: RefCell<FastHashMap<PortKey, WhyEmpty>>,
    /// Whether one has ready endpoints, and no hints.
    pub(super) without_hints: RefCell<FastHashMap<ObjectName, bool>>,
    /// Those of which a policy says where requests go, whatever the slices say.
    pub(super) placed: FastHashSet<ObjectName>,
}

/// A port, whether it is of UDP, and whether readers are of its namespace.
type PortKey = (ObjectName, NonZeroU16, bool, bool);
/// Why a port has no endpoint; `None` if it has one.
type WhyEmpty = Option<(Reason, String)>;

impl KnownServices {
    pub(super) fn new(store: &Store) -> Self {
        let policies = store.traffic_policies.values();
        let placed = policies.filter(|it| {
            let balance = it.spec.balance.as_ref();
            balance.is_some_and(|it| it.hash.is_some() || it.locality.is_some())
        });
        let placed = placed.flat_map(|policy| {
            let namespace = &policy.metadata.name.namespace;
            let targets = policy.spec.target_refs.iter();
            targets.filter_map(|it| it.object(namespace))
        });
        let placed = placed.filter(|it| it.kind == ObjectKind::Service);
        Self {
            placed: placed.map(|it| it.name).collect(),
            ..Self::default()
        }
    }
}
