//! ReferenceGrants that permit nothing, because they name a kind as nobody else does.

use super::view::View;
use super::{Diagnosis, finding};
use crate::files::suggest;
use crate::level::Level;
use crate::objects::api::ReferenceGrant;
use crate::objects::kinds::ObjectKind;
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
            let Some(advice) = advice(group, kind) else {
                continue;
            };
            let text = format!(
                "nothing is permitted by it: there is no kind `{kind}` in group `{group}`; {advice}"
            );
            found.push(Diagnosis {
                is_probably_ours: true,
                ..finding(&object, Level::Error, (field, Reason::InvalidKind), text)
            });
        }
    }
}

/// What was probably meant by a kind that there is not. Others may have kinds of any other group.
fn advice(group: &str, kind: &str) -> Option<String> {
    if ObjectKind::find(group, kind).is_some() {
        return None;
    }
    let named = |name: &str| ObjectKind::ALL.iter().copied().find(|it| it.name() == name);
    let is_known_group = ObjectKind::ALL.iter().any(|it| it.group() == group);
    if !is_known_group && !MISTAKEN_GROUPS.contains(&group) {
        return None;
    }
    let nearest = || {
        let names = ObjectKind::ALL.iter().map(|it| it.name());
        named(suggest::nearest(kind, names)?)
    };
    let meant = named(kind).or_else(nearest)?;
    Some(match meant.group() {
        "" => format!("write kind {meant} with the empty group (group: \"\")"),
        group => format!("write kind {meant} of group {group}"),
    })
}

/// What users write for the group of kinds that have the empty one.
const MISTAKEN_GROUPS: [&str; 3] = ["core", "v1", "apps"];
