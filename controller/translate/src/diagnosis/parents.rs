//! Routes and ListenerSets whose parents do not exist. On a machine their own conditions say so; in a cluster the
//! parent may be anybody's, and nobody writes a status.

use super::view::{RouteView, View};
use super::{Diagnosis, finding};
use crate::api::{DefaultScope, Gateway, ListenerSet, Resource as _};
use crate::level::Level;
use crate::objects::owner::Owner;
use crate::objects::store::ObjectRef;
use crate::status::Reason;

pub(super) fn examine(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    for route in view.routes() {
        without_parents(route, found);
        if !view.is_machine() {
            of_route(view, route, found);
        }
    }
    if !view.is_machine() {
        of_listener_sets(view, found);
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

fn of_listener_sets(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    for (name, set) in &view.store.listener_sets {
        let Some(gateway) = set.gateway() else {
            continue;
        };
        let object = ObjectRef::of::<ListenerSet>(name);
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
    let (kind, name, exists) = match parent {
        Owner::Gateway(name) => (Gateway::KIND, name, view.store.gateways.contains_key(name)),
        Owner::ListenerSet(name) => {
            let exists = view.store.listener_sets.contains_key(name);
            (ListenerSet::KIND, name, exists)
        }
    };
    if exists {
        return;
    }
    let hint = view.hints.of_missing(kind, name);
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
