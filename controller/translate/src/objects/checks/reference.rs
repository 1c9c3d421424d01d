//! References from one object to another.

use std::sync::Arc;

use crate::backend::api::{BackendObjectReference, BackendRef, BackendReference};
use crate::files::check::Check;
use crate::files::finding::Reason;
use crate::files::syntax;
use crate::gateway::api::{ObjectReference, SecretObjectReference};
use crate::route::api::{HttpBackendRef, ParentReference};

/// The parents of a route.
pub(crate) fn parents(check: &mut Check, parents: &[Arc<ParentReference>]) {
    check.at_most("parentRefs", parents.len(), MAX_PARENTS);
    check.each("parentRefs", parents, |check, parent| {
        group_and_kind(check, &parent.group, &parent.kind);
        check.fits_field("name", Some(&parent.name), syntax::object_name);
        check.fits_field("namespace", parent.namespace.as_deref(), syntax::label);
        check.fits_field(
            "sectionName",
            parent.section_name.as_deref(),
            syntax::subdomain,
        );
        let mut same = parents.iter().filter(|other| same_parent(parent, other));
        if is_whole(parent) {
            if same.count() > 1 {
                check.missing(
                    "sectionName",
                    "is required: the same parent is named twice, so each reference must specify the listener",
                );
            }
        } else if same.any(|other| !is_whole(other) && fields(other) != fields(parent)) {
            check.refuse(
                "selects a listener differently than the other references to this parent: give \
                 sectionName in each of them, or port, or both",
            );
        }
    });
    check.distinct("parentRefs", parents, "parent and section", |parent| {
        let ParentReference {
            group,
            kind,
            namespace,
            name,
            ..
        } = &**parent;
        let section = (&parent.section_name, parent.port);
        (!is_whole(parent)).then_some((group, kind, namespace, name, section))
    });
}

fn same_parent(a: &ParentReference, b: &ParentReference) -> bool {
    (&a.group, &a.kind, &a.namespace, &a.name) == (&b.group, &b.kind, &b.namespace, &b.name)
}

/// Whether the reference selects no listener.
fn is_whole(parent: &ParentReference) -> bool {
    fields(parent) == (false, false)
}

/// Which of the fields that select a listener are set.
fn fields(parent: &ParentReference) -> (bool, bool) {
    (parent.section_name.is_some(), parent.port.is_some())
}

/// A backend of an HTTP or gRPC rule, without its filters.
pub(crate) fn http_backend(check: &mut Check, backend: &HttpBackendRef) {
    backend_fields(check, backend.into());
    weight(check, backend.weight);
}

/// A backend of a TLS, TCP or UDP rule.
pub(crate) fn l4_backend(check: &mut Check, backend: &BackendRef) {
    backend_fields(check, backend.into());
    weight(check, backend.weight);
}

/// A backend of a mirror.
pub(crate) fn backend(check: &mut Check, backend: &BackendObjectReference) {
    backend_fields(check, backend.into());
}

fn backend_fields(check: &mut Check, backend: BackendReference<'_>) {
    group_and_kind(check, backend.group, backend.kind);
    check.fits_field("name", Some(backend.name), syntax::object_name);
    check.fits_field("namespace", backend.namespace, syntax::label);
    if backend.group.is_empty() && backend.kind == "Service" && backend.port.is_none() {
        check.missing("port", "is required for a Service");
    }
}

fn weight(check: &mut Check, weight: u32) {
    if weight > MAX_WEIGHT {
        let text = format!("{weight} is too large: write 0 to {MAX_WEIGHT}");
        check.field("weight", |check| check.refuse(text));
    }
}

/// A reference to a Secret or similar.
pub(crate) fn secret(check: &mut Check, secret: &SecretObjectReference) {
    group_and_kind(check, &secret.group, &secret.kind);
    check.fits_field("name", Some(&secret.name), syntax::object_name);
    check.fits_field("namespace", secret.namespace.as_deref(), syntax::label);
}

/// A reference to an object, possibly in another namespace.
pub(crate) fn object(check: &mut Check, object: &ObjectReference) {
    group_and_kind(check, &object.group, &object.kind);
    check.fits_field("name", Some(&object.name), syntax::object_name);
    check.fits_field("namespace", object.namespace.as_deref(), syntax::label);
}

/// Group and kind of a reference.
pub(crate) fn group_and_kind(check: &mut Check, group: &str, kind: &str) {
    check.fits_field("group", Some(group), syntax::group);
    check.fits_field("kind", Some(kind), syntax::kind);
    let is_typo =
        group.is_empty() && (matches!(kind, "Gateway" | "Backend") || kind.ends_with("Route"));
    if is_typo {
        let text = "is required: the empty group contains only Kubernetes' core kinds";
        check.field("group", |check| check.refuse_for(Reason::Required, text));
    }
}

const MAX_PARENTS: usize = 32;

/// Larger ones could overflow the sum.
const MAX_WEIGHT: u32 = 1_000_000;
