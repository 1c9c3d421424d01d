//! Findings about several files: duplicate objects, and objects without effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::file::{File, SourceLocation};
use super::file_set::FileSet;
use super::finding::{Finding, Reason, Severity};
use super::object::is_gateway_kind;
use super::objects::{ObjectVersions, Objects};
use super::path::FieldPath;
use crate::objects::admission;
use crate::objects::kinds::{GATEWAY_GROUP, ObjectKind};
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Object;
use crate::policy::api::PolicyStanding;

/// All findings. Files in `lost` had objects that were removed.
pub(crate) fn findings(
    files: &FileSet,
    objects: &Objects,
    lost: &BTreeSet<Arc<str>>,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = objects
        .duplicated
        .iter()
        .flat_map(|reference| duplicates(reference, objects))
        .collect();
    findings.extend(unread(files));
    let fail_closed = objects.fail_closed.iter();
    findings.extend(fail_closed.filter_map(|reference| fail_closed_finding(reference, objects)));
    findings.extend(emptied(files, lost));
    findings.extend(kept(objects));
    findings
}

/// Reports every place of an object except the first, which takes effect.
fn duplicates(reference: &ObjectRef, objects: &Objects) -> Vec<Finding> {
    let locations = objects.get(reference).and_then(ObjectVersions::locations);
    let Some((first, others)) = locations else {
        return Vec::new();
    };
    let text = format!(
        "is defined twice: {}:{} defines it too and takes precedence; remove or rename one",
        first.file,
        first.line(&FieldPath::default())
    );
    let others = others.iter().map(|location| Finding {
        severity: Severity::Error,
        reason: Reason::Duplicate,
        text: match location
            .in_force()
            .and_then(|it| admission::duplicate_replacement(it, 0))
        {
            Some(replacement) => format!("{text}; until then {}", effect_on_targets(&replacement)),
            None => text.clone(),
        },
        ..at(location, reference)
    });
    others.collect()
}

/// The API version that was probably meant by a kind of another group: `networking.k8s.io/v1 HTTPRoute`.
fn meant(kind: &str) -> Option<String> {
    let (version, name) = kind.split_once(' ')?;
    if version.split('/').next() == Some(GATEWAY_GROUP) {
        return None;
    }
    let kind = ObjectKind::named(name).filter(|it| it.group() == GATEWAY_GROUP)?;
    // Istio has one too.
    let is_distinct = name != "Gateway" || version.starts_with("networking.k8s.io/");
    let version = kind.definition().versions.first()?;
    is_distinct.then(|| format!("{GATEWAY_GROUP}/{version}"))
}

/// Reports each unsupported kind with the place of its first object and their number.
fn unread(files: &FileSet) -> Vec<Finding> {
    let mut kinds: BTreeMap<&str, (&str, u32, usize)> = BTreeMap::new();
    for file in files.in_order() {
        for (kind, unread) in &file.unread {
            let first = || (&*file.name, unread.line, 0);
            kinds.entry(kind).or_insert_with(first).2 += unread.count;
        }
    }
    let findings = kinds.into_iter().map(|(kind, (file, line, count))| {
        let (severity, why) = match meant(kind) {
            _ if is_gateway_kind(kind) => (
                Severity::Warning,
                "is not supported by this version".to_owned(),
            ),
            Some(group) => {
                let why = format!(
                    "is of another group than ours: write apiVersion {group} if you mean that"
                );
                (Severity::Error, why)
            }
            None if kind.ends_with(" Ingress") => (
                Severity::Info,
                "is not used here, where HTTPRoutes take its place".to_owned(),
            ),
            None => (Severity::Info, "is not used here".to_owned()),
        };
        let objects = if count == 1 {
            "1 object is"
        } else {
            &format!("{count} objects are")
        };
        Finding {
            severity,
            file: file.to_owned(),
            line,
            object: None,
            field: None,
            reason: Reason::UnknownKind,
            text: format!("{kind} {why}: {objects} ignored"),
        }
    });
    findings.collect()
}

/// Reports that a fail-closed replacement is in effect, in the place of an invalid object.
fn fail_closed_finding(reference: &ObjectRef, objects: &Objects) -> Option<Finding> {
    let versions = objects.get(reference)?;
    let location = versions.in_force()?;
    let in_force = versions.object_in_force()?;
    if matches!(in_force, Object::TrafficPolicy(policy) if policy.standing == PolicyStanding::Admitted)
    {
        // What is left of it refuses nothing; its errors say what is left out.
        return None;
    }
    // The location is that of the last valid version, if there is one.
    let previous = if location.object().is_some() {
        "its previous version restricts access less"
    } else {
        "has no previous version"
    };
    Some(Finding {
        severity: Severity::Warning,
        reason: Reason::RefusesAll,
        text: refuses(in_force, previous),
        ..at(location, reference)
    })
}

/// The effect of a fail-closed replacement, and what there is of a previous version.
fn refuses(fail_closed: &Object, previous: &str) -> String {
    let targets = match fail_closed {
        Object::TrafficPolicy(policy) => policy.spec.target_refs.as_slice(),
        Object::BackendTlsPolicy(policy) => &policy.spec.target_refs,
        _ => &[],
    };
    let effect_on_targets = effect_on_targets(fail_closed);
    if targets.is_empty() || targets.iter().any(|target| target.name.is_empty()) {
        let namespace = &fail_closed.metadata().name.namespace;
        format!(
            "is invalid, {previous}, and its targets are unknown: until it is \
             admitted, they may be anything in namespace `{namespace}` that has no such policy of \
             its own, and {effect_on_targets}"
        )
    } else {
        format!("is invalid and {previous}: until it is corrected, {effect_on_targets}")
    }
}

/// What happens to the targets of a fail-closed replacement.
fn effect_on_targets(fail_closed: &Object) -> &'static str {
    match fail_closed {
        Object::BackendTlsPolicy(_) => "nothing is sent to its targets",
        Object::TrafficPolicy(policy) if !policy.restrictions().any() => {
            "requests of its HTTPRoutes and rules get status 500 (bad_rewrite)"
        }
        _ => "its targets refuse every request",
    }
}

/// Reports each file that has become empty, and the removed objects. That may be intended, or the
/// result of a failed script.
fn emptied(files: &FileSet, lost: &BTreeSet<Arc<str>>) -> Vec<Finding> {
    let is_empty = |name: &&Arc<str>| files.file(name).is_some_and(File::is_empty);
    let emptied = lost.iter().filter(is_empty);
    let text = "has no objects now; those it had are removed";
    emptied
        .map(|file| of_file(file, Reason::Emptied, text.to_owned()))
        .collect()
}

/// Reports once per file the objects whose previous version stays in effect.
fn kept(objects: &Objects) -> Vec<Finding> {
    let mut kept: BTreeMap<&Arc<str>, Vec<&ObjectRef>> = BTreeMap::new();
    for reference in &objects.kept {
        if let Some(location) = objects.get(reference).and_then(ObjectVersions::in_force) {
            kept.entry(&location.file).or_default().push(reference);
        }
    }
    let findings = kept.into_iter().map(|(file, objects)| {
        let names = objects.iter().take(MAX_NAMED);
        let names: Vec<String> = names.map(ToString::to_string).collect();
        let more = match objects.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let names = names.join(", ");
        let text = format!("the previous version of {names}{more} stays in effect");
        of_file(file, Reason::PreviousKept, text)
    });
    findings.collect()
}

fn of_file(file: &str, reason: Reason, text: String) -> Finding {
    Finding {
        severity: Severity::Warning,
        file: file.to_owned(),
        line: 0,
        object: None,
        field: None,
        reason,
        text,
    }
}

/// A finding at an object's place, to be completed.
fn at(location: &SourceLocation, reference: &ObjectRef) -> Finding {
    let object = Some(reference.clone());
    Finding {
        line: location.line(&FieldPath::default()),
        object,
        ..of_file(&location.file, Reason::Duplicate, String::new())
    }
}

/// Most objects named in one finding.
const MAX_NAMED: usize = 5;
