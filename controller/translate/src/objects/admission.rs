//! The validation of each kind: what files may contain of it, and what takes effect in the place of what is invalid.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use xds::model::ObjectName;

use super::api::Resource;
use super::store::Object;
use crate::files::check::Check;
use crate::files::schema::Schema;
use crate::files::suggest;
use crate::policy::api::PolicyStanding;

/// A kind that files may contain.
pub(crate) trait Admissible:
    Resource + Clone + DeserializeOwned + Serialize + Into<Object> + Sized
{
    /// Whether its status is read, which other components write.
    const READS_STATUS: bool = false;
    /// Whether its values are secret.
    const SECRET: bool = false;
    /// Fields of its API that are irrelevant here, without list indices. Each includes everything
    /// inside.
    const UNREAD: &'static [&'static str] = &[];
    /// Fields of its API that are relevant but not supported.
    const UNSUPPORTED: &'static [&'static str] = &[];
    /// Fields of `spec` without which the object does no harm: one with a mistake is left out, and the rest is
    /// admitted.
    const DISPENSABLE: &'static [&'static str] = &[];

    /// The schema, for our own kinds.
    fn schema() -> Option<&'static Schema> {
        None
    }

    /// The fail-closed replacement for an invalid object without previous version: none, unless its
    /// absence would allow access.
    fn fail_closed(_name: &ObjectName, _written: &Value) -> Option<Self> {
        None
    }

    /// The fail-closed replacement for a duplicate of an object: none, unless its absence would allow
    /// access.
    fn duplicate_replacement(&self) -> Option<Self> {
        None
    }

    /// What takes effect in the place of this, which does, when a later version is rejected that has this
    /// fail-closed replacement; `None` if this stays as it is.
    fn kept_beside(&self, _rejected: Option<&Self>) -> Option<Self> {
        None
    }

    /// Whether a field at this path, without list indices, may restrict access or trust. If so, the
    /// object is rejected if the field is unknown, regardless of the setting for unknown fields, and
    /// if it is empty (`null`), which would otherwise count as absent.
    fn may_restrict_access(_field: &[&str]) -> bool {
        false
    }

    /// Validates the format of a name.
    fn check_name(name: &str) -> Result<(), String> {
        crate::files::syntax::subdomain(name)
    }

    /// Validates an object beyond the types of its fields.
    fn check(&self, check: &mut Check);

    /// Drops what nothing reads, once the object is valid.
    fn forget_unread(&mut self) {}
}

/// The fail-closed replacement for the `number`th object of a name, under a name that no object can
/// have.
pub(crate) fn duplicate_replacement(object: &Object, number: usize) -> Option<Object> {
    fn named<T: Admissible>(
        object: &T,
        number: usize,
        name: fn(&mut T) -> &mut ObjectName,
    ) -> Option<Object> {
        let mut replacement = object.duplicate_replacement()?;
        let name = name(&mut replacement);
        *name = ObjectName::new(&name.namespace, &format!("{}#{number}", name.name));
        Some(replacement.into())
    }
    match object {
        Object::TrafficPolicy(policy) => named(&**policy, number, |it| &mut it.metadata.name),
        Object::BackendTlsPolicy(policy) => named(&**policy, number, |it| &mut it.metadata.name),
        _ => None,
    }
}

/// What takes effect in the place of an object that does, when a later version is rejected that has this
/// fail-closed replacement; `None` if it stays as it is.
#[must_use]
pub fn kept_beside(current: &Object, rejected: Option<&Object>) -> Option<Object> {
    let Object::TrafficPolicy(current) = current else {
        return None;
    };
    let rejected = match rejected {
        Some(Object::TrafficPolicy(rejected)) => Some(&**rejected),
        _ => None,
    };
    current.kept_beside(rejected).map(Into::into)
}

/// Whether an object stands in for a policy whose latest version is rejected, and refuses every request.
pub(crate) fn refuses_all(object: &Object) -> bool {
    let Object::TrafficPolicy(policy) = object else {
        return false;
    };
    matches!(policy.standing, PolicyStanding::Rejected(_))
}

/// Whether an unknown field is inside one of `fields`, or probably a typo of one.
pub(crate) fn guarded(fields: &[&str], unknown: &[&str]) -> bool {
    let Some((name, parents)) = unknown.split_last() else {
        return false;
    };
    fields.iter().any(|field| {
        let mut steps = field.split('.');
        let is_inside = parents.iter().all(|parent| match steps.next() {
            Some(step) => step == *parent,
            None => true,
        });
        let typo_of = steps.next();
        is_inside && typo_of.is_none_or(|step| suggest::nearest(name, [step]).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::guarded;

    #[test]
    fn fields_below_or_similar_to_a_guarded_field_are_guarded() {
        for (unknown, is_guarded) in [
            ("spec.tls.frontend.default.validation.crl", true),
            ("spec.tls.frontend.new", true),
            ("spec.tls.fronted", true),
            ("spec.tsl", true),
            ("sepc", true),
            ("spec.tls.new", false),
            ("spec.hovering", false),
            ("spec.listeners.tls.frontend", false),
            ("metadata.tls", false),
        ] {
            let unknown: Vec<&str> = unknown.split('.').collect();
            let found = guarded(&["spec.tls.frontend"], &unknown);
            assert_eq!(found, is_guarded, "{unknown:?}");
        }
    }
}
