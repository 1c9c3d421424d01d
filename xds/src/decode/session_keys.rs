//! The session keys of a Gateway. Errors never contain their bytes.

use super::field_path::FieldPath;
use crate::model::{SessionKey, SessionKeys};
use crate::proto;

pub(super) fn session_keys(at: &FieldPath<'_>, message: proto::SessionKeys) -> Option<SessionKeys> {
    let accepted = at.some("accepted", message.accepted, |at, bytes| {
        at.accept(SessionKey::new(&bytes))
    });
    let signing = usize::try_from(message.signing).unwrap_or(usize::MAX);
    at.accept(SessionKeys::new(accepted?, signing))
}
