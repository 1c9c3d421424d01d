//! Resolves the Gateway of a ListenerSet, and whether it may attach.

use xds::model::ObjectName;

use super::gateway::ListenerSetTerms;
use crate::api;
use crate::problem::Problem;
use crate::reader::Reader;
use crate::reason::Reason;

/// Whether a Gateway allows a ListenerSet.
pub(crate) fn check_allowed(
    reader: &Reader<'_>,
    gateway: &ObjectName,
    terms: &ListenerSetTerms,
    set: &ObjectName,
) -> Result<(), Problem> {
    if terms.allowed_sets.allows(reader, &set.namespace) {
        return Ok(());
    }
    let message = format!(
        "Gateway {gateway} does not allow ListenerSets from namespace `{}`: see its allowedListeners",
        set.namespace
    );
    Err(Problem::new(Reason::NotAllowed, "spec.parentRef", message))
}

/// On one machine there is no other controller to report it.
pub(crate) fn orphan(object: &api::ListenerSet) -> Problem {
    let parent = &object.spec.parent_ref;
    let own = &*object.metadata.name.namespace;
    let message = format!(
        "{} {}/{} is not served here: refer to a Gateway that is",
        parent.kind,
        parent.namespace.as_deref().unwrap_or(own),
        parent.name
    );
    Problem::new(Reason::ParentNotAccepted, "spec.parentRef", message)
}
