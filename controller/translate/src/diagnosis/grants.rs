//! ReferenceGrants that permit nothing, because they name a kind as nobody else does.

use super::view::View;
use super::{Diagnosis, finding};
use crate::files::suggest;
use crate::level::Level;
use crate::objects::api::ReferenceGrant;
use crate::objects::kinds::{GATEWAY_GROUP, ObjectKind};
use crate::objects::object_ref::ObjectRef;
use crate::status::Reason;

pub(super) fn examine(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    for grant in view.store.reference_grants.values() {
        let object = ObjectRef::of::<ReferenceGrant>(&grant.metadata.name);
        let from = grant.spec.from.iter().enumerate();
        let from = from.map(|(at, it)| (format!("spec.from[{at}]"), &*it.group, &*it.kind));
        let to = grant.spec.to.iter().enumerate();
        let to = to.map(|(at, it)| (format!("spec.to[{at}]"), &*it.group, &*it.kind));
        for (field, group, kind) in from.chain(to) {
            let Some((level, advice)) = advice(group, kind) else {
                continue;
            };
            let text = format!(
                "nothing is permitted by it: there is no kind `{kind}` in group `{group}`; {advice}"
            );
            found.push(Diagnosis {
                is_probably_ours: level == Level::Error,
                ..finding(&object, level, (field, Reason::InvalidKind), text)
            });
        }
    }
}

/// What was probably meant by a kind that there is not: plainly where its name is one in another case or group, and
/// perhaps where it is similar. Others may have kinds of any other name or group.
fn advice(group: &str, kind: &str) -> Option<(Level, String)> {
    let is_known_group = ObjectKind::ALL.iter().any(|it| it.group() == group);
    if ObjectKind::find(group, kind).is_some()
        || OTHERS.contains(&(group, kind))
        || !is_known_group && !MISTAKEN_GROUPS.contains(&group)
    {
        return None;
    }
    let kinds = || ObjectKind::ALL.iter().copied();
    let named = kinds().find(|it| it.name().eq_ignore_ascii_case(kind));
    let (level, meant) = if let Some(meant) = named {
        (Level::Error, meant)
    } else {
        let of_group = kinds().filter(|it| it.group() == group);
        let name = suggest::nearest(kind, of_group.map(ObjectKind::name))?;
        (Level::Note, ObjectKind::named(name)?)
    };
    let meant = match meant.group() {
        "" => format!("{meant} with the empty group (group: \"\")"),
        group => format!("{meant} of group {group}"),
    };
    let advice = match level {
        Level::Error => format!("write kind {meant}"),
        _ => format!("if it is a mistake, write kind {meant}"),
    };
    Some((level, advice))
}

/// What users write for the group of kinds that have the empty one.
const MISTAKEN_GROUPS: [&str; 3] = ["core", "v1", "apps"];
/// Kinds of known groups that only other controllers read, with names like those of ours.
const OTHERS: [(&str, &str); 1] = [(GATEWAY_GROUP, "BackendLBPolicy")];
