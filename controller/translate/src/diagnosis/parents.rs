//! Routes and sets of listeners whose parents do not exist. On a machine their own conditions say so; in a cluster the
//! parent may be anybody's, and nobody writes a status.

use super::view::{RouteView, View};
use super::{Diagnosis, finding};
use crate::level::Level;
use crate::objects::object_ref::ObjectRef;
use crate::objects::owner::Owner;
use crate::route::api::DefaultScope;
use crate::status::Reason;

pub(super) fn examine(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    for route in view.routes() {
        without_parents(route, found);
        if !view.is_machine() {
            of_route(view, route, found);
        }
    }
    if !view.is_machine() {
        of_sets(view, found);
    }
}

fn without_parents(route: &RouteView<'_>, found: &mut Vec<Diagnosis>) {
    if route.parents.is_empty() && route.scope != DefaultScope::All {
        let field = ("spec.parentRefs".to_owned(), Reason::NoMatchingParent);
        let text = "the route names no Gateway, so nothing serves it: add one";
        found.push(finding(
            &route.object,
            Level::Warning,
            field,
            text.to_owned(),
        ));
    }
}

fn of_route(view: &View<'_>, route: &RouteView<'_>, found: &mut Vec<Diagnosis>) {
    for (index, parent) in route.parents.iter().enumerate() {
        let Some(owner) = crate::route::parent::owner(parent, route.namespace()) else {
            continue;
        };
        let field = format!("spec.parentRefs[{index}].name");
        missing(view, (&route.object, field), &owner, found);
    }
}

fn of_sets(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    for (object, gateway) in view.sets() {
        let field = "spec.parentRef.name".to_owned();
        missing(view, (&object, field), &Owner::Gateway(gateway), found);
    }
}

fn missing(
    view: &View<'_>,
    (object, field): (&ObjectRef, String),
    parent: &Owner,
    found: &mut Vec<Diagnosis>,
) {
    if view.store.contains(&ObjectRef::from(parent)) {
        return;
    }
    let (kind, name) = (parent.kind(), parent.name());
    let hint = view.hints.of_missing(&object.name.namespace, kind, name);
    let what = hint.as_deref().unwrap_or_default();
    let text = format!(
        "{kind} {name} does not exist{what}, so it serves nothing there: correct the name, or create it"
    );
    found.push(Diagnosis {
        is_probably_ours: hint.is_some(),
        ..finding(
            object,
            Level::Error,
            (field, Reason::NoMatchingParent),
            text,
        )
    });
}
