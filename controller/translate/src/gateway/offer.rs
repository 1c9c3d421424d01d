//! The listeners that an object offers to routes. Excludes certificates, addresses and
//! conflicts, so that routes are not evaluated again when those change.

use std::num::NonZeroU16;
use std::sync::Arc;

use xds::model::{Hostname, ListenerKey, ObjectName};

use super::allowed::AllowedNamespaces;
use super::api::RouteGroupKind;
use crate::status::problem::Problem;

/// The offers of one object.
#[derive(Debug, PartialEq)]
pub(crate) struct ListenerOffers {
    /// The Gateway, or why a ListenerSet has none.
    pub(crate) gateway: Result<ObjectName, Problem>,
    pub(crate) listeners: Vec<Arc<ListenerOffer>>,
}

/// The offer of one listener.
#[derive(Debug, PartialEq)]
pub(crate) struct ListenerOffer {
    pub(crate) key: ListenerKey,
    pub(crate) name: String,
    pub(crate) port: NonZeroU16,
    /// The protocol as written.
    pub(crate) protocol: String,
    pub(crate) hostname: Option<Hostname>,
    /// Allowed kinds of routes.
    pub(crate) kinds: Vec<RouteGroupKind>,
    /// Allowed namespaces of routes.
    pub(crate) allowed: AllowedNamespaces,
}
