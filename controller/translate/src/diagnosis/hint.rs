//! "Did you mean": what somebody who named an object that does not exist probably meant.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;

use xds::model::ObjectName;

use super::room::Room;
use crate::files::suggest;
use crate::gateway::api::{AllowedRoutes, FromNamespaces, Gateway};
use crate::objects::kinds::ObjectKind;
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Store;
use crate::status::{Condition, Status, Statuses};

/// Whether hints name objects of other namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// All: whoever reads the hint may read the objects.
    Named,
    /// Only Gateways that are open to routes of all namespaces: tenants read the hint.
    Hidden,
}

/// Finds similar names.
pub struct Hints<'a> {
    store: &'a Store,
    others: Others,
    /// Objects that are written, and refused.
    invalid: BTreeSet<ObjectRef>,
    /// Names that may still be compared, so that a flood of mistakes stays cheap.
    room: Room,
    /// Whether a hint was left out because too many names would have been compared.
    is_short: Cell<bool>,
}

impl<'a> Hints<'a> {
    /// Hints from these objects.
    #[must_use]
    pub fn new(store: &'a Store, others: Others) -> Self {
        Self {
            store,
            others,
            invalid: BTreeSet::new(),
            room: Room::new(MOST_COMPARED),
            is_short: Cell::new(false),
        }
    }

    /// The same, where these objects are written and refused: they do not exist, and need not be created.
    #[must_use]
    pub fn besides(mut self, invalid: impl IntoIterator<Item = ObjectRef>) -> Self {
        self.invalid.extend(invalid);
        self
    }

    /// Whether hints were left out since this was asked last, because too many names would have been compared.
    #[must_use]
    pub fn take_shortness(&self) -> bool {
        self.is_short.take()
    }

    /// Whether a status says that an object does not exist, so that a hint may follow.
    #[must_use]
    pub fn concern(status: &mut Status) -> bool {
        let mut conditions = status.conditions_mut();
        conditions.any(|it| it.is_problem() && it.message.contains(MISSING))
    }

    /// Completes the messages about objects that do not exist of the status of an object.
    pub fn complete(&self, object: &ObjectRef, status: &mut Status) {
        for condition in status.conditions_mut() {
            self.complete_condition(&object.name.namespace, condition);
        }
    }

    /// The same for all statuses.
    pub fn complete_all(&self, statuses: &mut Statuses) {
        for (object, status) in statuses.iter_mut() {
            self.complete(object, status);
        }
    }

    fn complete_condition(&self, reader: &str, condition: &mut Condition) {
        if !condition.is_problem() {
            return;
        }
        if let Cow::Owned(message) = self.completed(reader, &condition.message) {
            condition.message = message.into();
        }
    }

    /// The message with a hint after each `KIND NAMESPACE/NAME does not exist`, the form in which all of this
    /// crate are written, for readers of a namespace.
    #[must_use]
    pub fn completed<'m>(&self, reader: &str, message: &'m str) -> Cow<'m, str> {
        let mut completed = String::new();
        let mut rest = message;
        while let Some(end) = rest.find(MISSING) {
            let (before, after) = rest.split_at(end);
            let (sentence, mut after) = after.split_at(MISSING.len());
            completed.push_str(before);
            completed.push_str(sentence);
            if let Some(hint) = self
                .of_text(reader, before)
                .filter(|_| !after.starts_with(" ("))
            {
                completed.push_str(&hint);
                if let Some(others) = after.strip_prefix(CREATE).filter(|_| hint == INVALID) {
                    completed.push_str(": correct that");
                    after = others;
                }
            }
            rest = after;
        }
        if completed.is_empty() || completed.len() + rest.len() == message.len() {
            return Cow::Borrowed(message);
        }
        completed.push_str(rest);
        Cow::Owned(completed)
    }

    /// A hint for the object that a text ends with.
    fn of_text(&self, reader: &str, text: &str) -> Option<String> {
        let mut words = text.rsplit(' ');
        let (name, kind) = (words.next()?, words.next()?);
        let (namespace, name) = name.split_once('/')?;
        // In a list of problems, the field is before the kind.
        let kind = kind.rsplit(['(', ':']).next()?;
        self.of_missing(
            reader,
            ObjectKind::named(kind)?,
            &ObjectName::new(namespace, name),
        )
    }

    /// ` (did you mean …?)` for an object that does not exist, if anything is similar that readers of a namespace
    /// may know.
    pub(super) fn of_missing(
        &self,
        reader: &str,
        kind: ObjectKind,
        wanted: &ObjectName,
    ) -> Option<String> {
        if self.invalid.contains(&ObjectRef::new(kind, wanted)) {
            return Some(INVALID.to_owned());
        }
        let all = self.store.names(kind);
        let in_namespace = all.iter().filter(|it| it.namespace == wanted.namespace);
        let others = in_namespace.filter(|it| it.name != wanted.name);
        let others = others.filter(|it| *it.namespace == *reader || self.may_tell(kind, it));
        let others: Vec<&str> = others.map(|it| &*it.name).collect();
        self.take_room(reader, others.len())?;
        if let Some(near) = suggest::nearest(&wanted.name, others) {
            return Some(format!(" (did you mean `{near}`?)"));
        }
        let mut told: Vec<&ObjectName> = all
            .into_iter()
            .filter(|it| self.may_tell(kind, it))
            .collect();
        // So that the first of several is always the same.
        told.sort_unstable();
        let mut namesakes = told.iter().filter(|it| it.name == wanted.name);
        match (namesakes.next(), namesakes.next()) {
            (None, _) if kind == ObjectKind::Gateway => {
                self.take_room(reader, told.len())?;
                elsewhere(&told, wanted)
            }
            (None, _) => None,
            (Some(only), None) => Some(format!(
                " (namespace `{}` has one of this name)",
                only.namespace
            )),
            (Some(first), Some(_)) => Some(format!(
                " (namespace `{}` and others have one of this name)",
                first.namespace
            )),
        }
    }

    /// ` (did you mean …?)` for a Service that no slice names, if one is for a similar name that readers of a
    /// namespace may know.
    pub(super) fn of_slices<'n>(
        &self,
        reader: &str,
        service: &ObjectName,
        known: impl Iterator<Item = &'n str>,
    ) -> String {
        if *service.namespace != *reader && self.others == Others::Hidden {
            return String::new();
        }
        let known: Vec<&str> = known.collect();
        match self.take_room(reader, known.len()) {
            Some(()) => suggest::hint(&service.name, known),
            None => String::new(),
        }
    }

    /// Takes room for comparing so many names for readers of a namespace; `None` if there is not enough left.
    fn take_room(&self, reader: &str, names: usize) -> Option<()> {
        let has_room = self.room.take(reader, names);
        if !has_room {
            self.is_short.set(true);
        }
        has_room.then_some(())
    }

    /// Whether the name of an object may be told in other namespaces.
    fn may_tell(&self, kind: ObjectKind, name: &ObjectName) -> bool {
        let is_open_gateway = || self.store.gateways.get(name).is_some_and(|it| is_open(it));
        self.others == Others::Named || kind == ObjectKind::Gateway && is_open_gateway()
    }
}

/// A Gateway of another namespace with a similar name: routes often name those.
fn elsewhere(told: &[&ObjectName], wanted: &ObjectName) -> Option<String> {
    let near = suggest::nearest(&wanted.name, told.iter().map(|it| &*it.name))?;
    let found = told.iter().find(|it| &*it.name == near)?;
    Some(format!(
        " (did you mean `{near}` of namespace `{}`?)",
        found.namespace
    ))
}

/// Whether a Gateway accepts routes of every namespace, so that its name is no secret.
fn is_open(gateway: &Gateway) -> bool {
    let is_open = |it: &AllowedRoutes| it.namespaces.from == FromNamespaces::All;
    let mut listeners = gateway.spec.listeners.iter();
    listeners.any(|it| is_open(&it.allowed_routes))
}

/// How messages about an object that does not exist go on after its name.
const MISSING: &str = " does not exist";
/// The hint where it is written, and what it is written instead of.
const INVALID: &str = " (the one that is written is invalid)";
const CREATE: &str = ": create it";
/// Names that are compared for all hints of one translation, which takes a microsecond each: a flood of mistakes must
/// not delay the changes of others.
const MOST_COMPARED: usize = 5_000;

#[cfg(test)]
mod tests {
    use super::{Hints, Others};
    use crate::backend::api::Service;
    use crate::objects::kinds::ObjectKind;
    use crate::objects::object_ref::ObjectRef;
    use crate::objects::store::{Object, Store};
    use xds::model::ObjectName;

    fn store(names: &[(&str, &str)]) -> Store {
        let services = names.iter().map(|(namespace, name)| {
            let mut service = Service::default();
            service.metadata.name = ObjectName::new(namespace, name);
            Object::from(service)
        });
        services.collect()
    }

    #[test]
    fn a_message_about_a_missing_object_names_a_similar_one() {
        let store = store(&[("app", "shop"), ("other", "cart")]);
        let hints = Hints::new(&store, Others::Named);
        for (message, expected) in [
            (
                "Service app/shpo does not exist: create it",
                "Service app/shpo does not exist (did you mean `shop`?): create it",
            ),
            (
                "spec.rules[0]: Service app/cart does not exist: create it; more",
                "spec.rules[0]: Service app/cart does not exist (namespace `other` has one of this name): \
                 create it; more",
            ),
            ("Service app/payments does not exist: create it", ""),
            ("the Secret does not exist", ""),
            ("all is well", ""),
        ] {
            let expected = if expected.is_empty() {
                message
            } else {
                expected
            };
            assert_eq!(hints.completed("app", message), expected);
            assert_eq!(hints.completed("app", expected), expected, "once only");
        }
    }

    #[test]
    fn tenants_are_not_told_names_of_other_namespaces() {
        let store = store(&[("other", "cart")]);
        let hints = Hints::new(&store, Others::Hidden);
        for message in [
            "Service app/cart does not exist: create it",
            "Service other/crat does not exist: create it",
        ] {
            assert_eq!(hints.completed("app", message), message);
        }
        let own = hints.completed("other", "Service other/crat does not exist: create it");
        assert!(own.contains("did you mean `cart`?"), "{own}");
    }

    #[test]
    fn a_flood_of_mistakes_is_not_compared_without_end() {
        let names: Vec<String> = (0..1_000).map(|it| format!("service-{it}")).collect();
        let names: Vec<(&str, &str)> = names.iter().map(|it| ("app", it.as_str())).collect();
        let store = store(&names);
        let hints = Hints::new(&store, Others::Named);
        let wanted = ObjectName::new("app", "servce-7");
        let found = (0..1_000).filter(|_| {
            hints
                .of_missing("app", ObjectKind::Service, &wanted)
                .is_some()
        });
        assert_eq!(found.count(), super::MOST_COMPARED / 2_000);
        assert!(hints.take_shortness());
        // One tenant's mistakes leave others their hints.
        let found = hints.of_missing("other", ObjectKind::Service, &wanted);
        assert!(found.is_some() && !hints.take_shortness());
    }

    #[test]
    fn an_object_that_is_written_and_refused_need_not_be_created() {
        let store = store(&[("app", "shop")]);
        let hints = Hints::new(&store, Others::Named);
        let invalid = ObjectRef::new(ObjectKind::Service, &ObjectName::new("app", "shpo"));
        let hints = hints.besides([invalid]);
        let message = "Service app/shpo does not exist: create it";
        let expected =
            "Service app/shpo does not exist (the one that is written is invalid): correct that";
        assert_eq!(hints.completed("app", message), expected);
    }
}
