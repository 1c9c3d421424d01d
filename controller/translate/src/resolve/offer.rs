//! What an object with listeners offers to the routes that name it. It says nothing of certificates,
//! addresses and conflicts, so that routes are not judged again when those change.

use std::num::NonZeroU16;
use std::sync::Arc;

use xds::model::{Hostname, ListenerKey, ObjectName};

use super::allowed::Allowed;
use crate::api::RouteGroupKind;
use crate::problem::Problem;

/// What one object offers.
#[derive(Debug, PartialEq)]
pub(crate) struct Offers {
    /// The Gateway, or why a ListenerSet has none.
    pub(crate) gateway: Result<ObjectName, Problem>,
    pub(crate) listeners: Vec<Arc<Offer>>,
}

/// What one listener offers.
#[derive(Debug, PartialEq)]
pub(crate) struct Offer {
    pub(crate) key: ListenerKey,
    pub(crate) name: String,
    pub(crate) port: NonZeroU16,
    /// As the user names it.
    pub(crate) protocol: String,
    pub(crate) hostname: Option<Hostname>,
    /// The kinds of routes it takes.
    pub(crate) kinds: Vec<RouteGroupKind>,
    /// The namespaces whose routes may attach.
    pub(crate) allowed: Allowed,
}
