//! The listeners that accept a route, before budgets and conflicts.

use std::collections::BTreeMap;
use std::sync::Arc;

use xds::model::{self, Attachments, ObjectName};

use super::parent::Attachment;

/// A listener that accepts a route.
pub(crate) type Candidate = Attachment;

/// Listeners by Gateway.
pub(crate) fn attachments_by_gateway<'a>(
    candidates: impl IntoIterator<Item = &'a Candidate>,
) -> BTreeMap<&'a ObjectName, Attachments> {
    let mut all: BTreeMap<&ObjectName, Vec<model::Attachment>> = BTreeMap::new();
    for candidate in candidates {
        let of_gateway = all.entry(&candidate.gateway).or_default();
        of_gateway.push(attachment(candidate));
    }
    let all = all.into_iter();
    all.map(|(gateway, list)| (gateway, list.into_iter().collect()))
        .collect()
}

pub(crate) fn attachment(candidate: &Candidate) -> model::Attachment {
    model::Attachment {
        listener: candidate.listener.clone(),
        hostnames: Arc::clone(&candidate.hostnames),
    }
}
