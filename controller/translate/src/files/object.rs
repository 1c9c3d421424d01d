//! One object of a document: identifies it, and converts it to its typed form.

use serde_json::{Map, Value};

use super::admissions::{ADMISSIONS, Admission};
use super::finding::{Reason, Remark, Severity};
use super::path::{FieldPath, PathStep};
use super::unknown_fields::UnknownFields;
use super::{crd, suggest, syntax};
use crate::objects::kinds::{GATEWAY_GROUP, OWN_GROUP, ObjectKind};
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Object;
use xds::model::ObjectName;

/// The result for an object.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Its kind is not used here.
    PassedOver {
        /// Such as `apps/v1 Deployment`.
        kind: String,
    },
    /// Its kind is not used here but in clusters, where its definition would find this.
    Checked {
        /// Such as `gateway-system.io/v1alpha1 GatewayParameters`.
        kind: String,
        id: ObjectRef,
        remarks: Vec<Remark>,
    },
    /// It cannot be identified.
    Unidentified { remarks: Vec<Remark> },
    /// Its kind is supported: with an object if admitted, with an error if invalid.
    Read {
        id: ObjectRef,
        object: Option<Object>,
        /// Takes effect if it is invalid and has no previous version.
        fail_closed: Option<Object>,
        remarks: Vec<Remark>,
    },
}

pub(crate) fn read(value: Value, unknown_fields: UnknownFields) -> Outcome {
    let Value::Object(fields) = value else {
        let text = "is not a Kubernetes object: expected a mapping with apiVersion and kind";
        return unidentified(&FieldPath::default(), Reason::NotAnObject, text.to_owned());
    };
    let (api_version, kind_name) = match (text(&fields, "apiVersion"), text(&fields, "kind")) {
        (Ok(api_version), Ok(kind)) => (api_version, kind),
        (Err((path, why)), _) | (_, Err((path, why))) => {
            return unidentified(&path, Reason::NotAnObject, why);
        }
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = match find(group, &kind_name) {
        KindLookup::Read(kind) => kind,
        KindLookup::OfClusters => {
            return read_of_clusters(version, fields, unknown_fields);
        }
        KindLookup::Foreign => {
            return Outcome::PassedOver {
                kind: format!("{api_version} {kind_name}"),
            };
        }
        KindLookup::Typo { field, text } => {
            let path = FieldPath::default().field(field);
            return unidentified(&path, Reason::UnknownKind, text);
        }
    };
    let version_read = kind.kind.definition().versions.contains(&version);
    let (id, mut value) = match name(kind, fields) {
        Ok(named) => named,
        Err(remarks) => return Outcome::Unidentified { remarks },
    };
    if !version_read {
        let path = FieldPath::default().field("apiVersion");
        let expected = kind.kind.api_version();
        let text = format!("version `{version}` is not supported: use {expected}");
        let remarks = vec![Remark::error(&path, Reason::UnsupportedVersion, text)];
        drop_nulls(kind, &mut value, &mut FieldPath::default(), &mut Vec::new());
        return Outcome::Read {
            fail_closed: (kind.fail_closed)(&id.name, &value),
            id,
            object: None,
            remarks,
        };
    }
    read_supported(kind, id, value, unknown_fields)
}

/// Reads an object of a known kind, in any API version.
pub(crate) fn read_as(
    kind: &'static Admission,
    fields: Map<String, Value>,
    unknown_fields: UnknownFields,
) -> Outcome {
    match name(kind, fields) {
        Ok((id, value)) => read_supported(kind, id, value, unknown_fields),
        Err(remarks) => Outcome::Unidentified { remarks },
    }
}

/// The identity of an object, and the fields to read.
fn name(
    kind: &'static Admission,
    mut fields: Map<String, Value>,
) -> Result<(ObjectRef, Value), Vec<Remark>> {
    fields.remove("apiVersion");
    fields.remove("kind");
    if !kind.reads_status {
        fields.remove("status");
    }
    let id = ObjectRef {
        kind: kind.kind,
        name: identify(kind.kind, kind.check_name, &mut fields)?,
    };
    Ok((id, Value::Object(fields)))
}

/// Reads an object of a supported kind and version.
fn read_supported(
    kind: &Admission,
    id: ObjectRef,
    mut value: Value,
    unknown_fields: UnknownFields,
) -> Outcome {
    let mut remarks = Vec::new();
    drop_nulls(kind, &mut value, &mut FieldPath::default(), &mut remarks);
    // An empty field that restricts access was given, as far as the replacement is concerned.
    let fail_closed = (kind.fail_closed)(&id.name, &value);
    if !remarks.is_empty() {
        drop_all_nulls(&mut value);
    }
    remarks.extend(metadata(&value));
    let without = without_dispensable(kind, &value);
    let (object, found) = (kind.read)(value);
    remarks.extend(found);
    for remark in &mut remarks {
        unknown_fields.complete_remark(kind, remark);
    }
    drop_consequences(&mut remarks);
    let refused = remarks
        .iter()
        .any(|remark| remark.severity == Severity::Error);
    let object = object.filter(|_| !refused);
    let instead = match &object {
        Some(_) => None,
        None => { without.and_then(|it| leave_out(kind, it, &mut remarks)) }.or(fail_closed),
    };
    Outcome::Read {
        id,
        fail_closed: instead,
        object,
        remarks,
    }
}

/// The object without its dispensable fields, if it has any.
fn without_dispensable(kind: &Admission, value: &Value) -> Option<Value> {
    let spec = value.get("spec")?.as_object()?;
    if !kind.dispensable.iter().any(|name| spec.contains_key(*name)) {
        return None;
    }
    let mut value = value.clone();
    let spec = value.get_mut("spec")?.as_object_mut()?;
    spec.retain(|name, _| !kind.dispensable.contains(&name.as_str()));
    Some(value)
}

/// What takes effect in the place of an object without a previous version, all of whose mistakes are in
/// dispensable fields: the object without these.
fn leave_out(kind: &Admission, without: Value, remarks: &mut [Remark]) -> Option<Object> {
    let is_in = |path: &FieldPath, name: &&&str| {
        let of_field = FieldPath::default().field("spec").field(name);
        path.steps().starts_with(of_field.steps())
    };
    let errors = || remarks.iter().filter(|it| it.severity == Severity::Error);
    let is_left_out = |it: &Remark| kind.dispensable.iter().any(|name| is_in(&it.path, &name));
    if !errors().all(is_left_out) {
        return None;
    }
    let (object, others) = (kind.read)(without);
    let is_refused = others.iter().any(|it| it.severity == Severity::Error);
    let object = object.filter(|_| !is_refused)?;
    for error in remarks
        .iter_mut()
        .filter(|it| it.severity == Severity::Error)
    {
        error.text +=
            "; without a previous version the field is left out, and the rest is in effect";
    }
    Some(object)
}

/// Drops findings about missing fields of a mapping with an unknown field that has to be corrected:
/// it is the cause.
fn drop_consequences(remarks: &mut Vec<Remark>) {
    let unknown: Vec<FieldPath> = remarks
        .iter()
        .filter(|it| (it.reason, it.severity) == (Reason::UnknownField, Severity::Error))
        .map(|it| it.path.clone())
        .collect();
    let is_cause = |of: &FieldPath| unknown.iter().any(|it| it.steps().starts_with(of.steps()));
    remarks.retain(|it| !it.of_fields || !is_cause(&it.path));
}

fn unidentified(path: &FieldPath, reason: Reason, text: String) -> Outcome {
    let remarks = vec![Remark::error(path, reason, text)];
    Outcome::Unidentified { remarks }
}

fn text(fields: &Map<String, Value>, name: &str) -> Result<String, (FieldPath, String)> {
    let path = FieldPath::default().field(name);
    match fields.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(_) => Err((
            path,
            "must be text, such as `apiVersion: v1`, `kind: Service`".into(),
        )),
        None => {
            let typo = suggest::nearest(name, fields.keys().map(String::as_str));
            let typo = typo.map_or(String::new(), |typo| format!(" (is `{typo}` a typo?)"));
            Err((
                path,
                format!("is required{typo}: every object has apiVersion and kind"),
            ))
        }
    }
}

/// Checks `GatewayParameters` as an API server would.
fn read_of_clusters(
    version: &str,
    mut fields: Map<String, Value>,
    unknown_fields: UnknownFields,
) -> Outcome {
    let kind = ObjectKind::GatewayParameters;
    for name in ["apiVersion", "kind", "status"] {
        fields.remove(name);
    }
    let name = match identify(kind, syntax::subdomain, &mut fields) {
        Ok(name) => name,
        Err(remarks) => return Outcome::Unidentified { remarks },
    };
    let mut value = Value::Object(fields);
    // Overlays have them, to remove fields.
    drop_all_nulls(&mut value);
    let mut remarks = metadata(&value);
    if kind.definition().versions.contains(&version) {
        remarks.extend(crd::GATEWAY_PARAMETERS.admit(&mut value));
    } else {
        let path = FieldPath::default().field("apiVersion");
        let expected = kind.api_version();
        let text = format!("version `{version}` is not supported: use {expected}");
        remarks.push(Remark::error(&path, Reason::UnsupportedVersion, text));
    }
    for remark in &mut remarks {
        unknown_fields.complete(remark, |_| false);
    }
    drop_consequences(&mut remarks);
    Outcome::Checked {
        kind: format!("{} {kind}", kind.api_version()),
        id: ObjectRef::new(kind, &name),
        remarks,
    }
}

/// The result of looking up a group and kind.
enum KindLookup {
    Read(&'static Admission),
    /// Kinds that only clusters use, and that are checked.
    OfClusters,
    Foreign,
    /// Probably a typo in `field`.
    Typo {
        field: &'static str,
        text: String,
    },
}

fn find(group: &str, name: &str) -> KindLookup {
    let named = ObjectKind::named(name);
    if named == Some(ObjectKind::GatewayParameters) {
        if group == OWN_GROUP {
            return KindLookup::OfClusters;
        }
        // kgateway has a kind of this name too.
        if is_typo(group, OWN_GROUP) {
            let written = ObjectKind::GatewayParameters.api_version();
            return KindLookup::Typo {
                field: "apiVersion",
                text: format!("{group} has no {name}: write {written}"),
            };
        }
    }
    let admission = named.and_then(Admission::of_kind);
    if let Some(admission) = admission {
        let known = admission.kind.group();
        if known == group {
            return KindLookup::Read(admission);
        }
        if !known.is_empty() && (group.is_empty() || is_typo(group, known)) {
            let given = if group.is_empty() {
                "the core group"
            } else {
                group
            };
            let written = admission.kind.api_version();
            return KindLookup::Typo {
                field: "apiVersion",
                text: format!("{given} has no {name}: write {written}"),
            };
        }
    }
    let siblings = ADMISSIONS.iter().map(|admission| admission.kind);
    let siblings = siblings.filter(|kind| kind.group() == group);
    let is_unread = named.is_some() && admission.is_none();
    match suggest::nearest(name, siblings.map(ObjectKind::name)).filter(|_| !is_unread) {
        Some(near) => KindLookup::Typo {
            field: "kind",
            text: format!("`{name}` is not a known kind: did you mean `{near}`?"),
        },
        None if group == OWN_GROUP && !is_unread => KindLookup::Typo {
            field: "kind",
            text: format!(
                "this version has no kind `{name}` in group {OWN_GROUP}: correct it, or update the gateway"
            ),
        },
        None => KindLookup::Foreign,
    }
}

fn is_typo(group: &str, known: &str) -> bool {
    suggest::nearest(group, [known]).is_some()
}

/// Namespace and name; sets the default namespace.
fn identify(
    kind: ObjectKind,
    check_name: fn(&str) -> syntax::Verdict,
    fields: &mut Map<String, Value>,
) -> Result<ObjectName, Vec<Remark>> {
    let path = FieldPath::default().field("metadata");
    let Some(Value::Object(metadata)) = fields.get_mut("metadata") else {
        let text = "is required: an object needs metadata with a name";
        return Err(vec![Remark::error(&path, Reason::Required, text)]);
    };
    let name = match metadata.get("name") {
        Some(Value::String(name)) if !name.is_empty() => name.clone(),
        Some(Value::Number(_) | Value::Bool(_)) => {
            let text = "is not text: quote it";
            return Err(vec![Remark::error(
                &path.field("name"),
                Reason::WrongType,
                text,
            )]);
        }
        _ => {
            let text = "is required (generateName is not supported in a file)";
            return Err(vec![Remark::error(
                &path.field("name"),
                Reason::Required,
                text,
            )]);
        }
    };
    if !kind.is_namespaced() {
        metadata.remove("namespace");
        check_syntax(&path, "name", &name, check_name)?;
        return Ok(ObjectName::new("", &name));
    }
    let namespace = match metadata.get("namespace") {
        None | Some(Value::Null) => DEFAULT_NAMESPACE.to_owned(),
        Some(Value::String(text)) if text.is_empty() => DEFAULT_NAMESPACE.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => {
            let text = "is not text: quote it";
            return Err(vec![Remark::error(
                &path.field("namespace"),
                Reason::WrongType,
                text,
            )]);
        }
    };
    metadata.insert("namespace".to_owned(), Value::String(namespace.clone()));
    check_syntax(&path, "name", &name, check_name)?;
    check_syntax(&path, "namespace", &namespace, syntax::label)?;
    Ok(ObjectName::new(&namespace, &name))
}

fn check_syntax(
    path: &FieldPath,
    field: &str,
    text: &str,
    form: fn(&str) -> syntax::Verdict,
) -> Result<(), Vec<Remark>> {
    let refusal = |why| vec![Remark::error(&path.field(field), Reason::Invalid, why)];
    form(text).map_err(refusal)
}

/// Labels and annotations, which every kind has.
fn metadata(value: &Value) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let path = FieldPath::default().field("metadata");
    for name in ["labels", "annotations"] {
        let Some(Value::Object(entries)) = value.pointer(&format!("/metadata/{name}")) else {
            continue;
        };
        for (key, value) in entries {
            let path = path.field(name).field(key);
            let value = value
                .as_str()
                .filter(|_| name == "labels")
                .unwrap_or_default();
            let verdicts = [syntax::qualified(key), syntax::label_value(value)];
            let wrong = verdicts.into_iter().filter_map(Result::err);
            remarks.extend(wrong.map(|why| Remark::error(&path, Reason::Invalid, why)));
        }
    }
    remarks
}

/// `null` means absent, as to an API server. Of a field that may restrict access it is a mistake: whoever
/// wrote its name did not want to go without. Those stay, with a remark each.
fn drop_nulls(
    kind: &Admission,
    value: &mut Value,
    path: &mut FieldPath,
    remarks: &mut Vec<Remark>,
) {
    match value {
        Value::Object(fields) => {
            // There are hardly any, and `retain` costs several times a look.
            if fields.values().any(Value::is_null) {
                fields.retain(|name, inner| {
                    let mistake = inner
                        .is_null()
                        .then(|| empty_restriction(kind, &path.field(name)));
                    let is_kept = mistake.as_ref().is_none_or(Option::is_some);
                    remarks.extend(mistake.flatten());
                    is_kept
                });
            }
            for (name, inner) in fields.iter_mut().filter(|(_, it)| is_nested(it)) {
                path.push_field(name);
                drop_nulls(kind, inner, path, remarks);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate().filter(|(_, it)| is_nested(it)) {
                path.push(PathStep::Item(index));
                drop_nulls(kind, item, path, remarks);
                path.pop();
            }
        }
        _ => {}
    }
}

fn drop_all_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, inner| !inner.is_null());
            fields.values_mut().for_each(drop_all_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_all_nulls),
        _ => {}
    }
}

fn is_nested(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_))
}

fn empty_restriction(kind: &Admission, path: &FieldPath) -> Option<Remark> {
    let may_restrict = (kind.may_restrict_access)(&path.names());
    let text = "is empty, and may restrict access: give it a value, or remove it";
    may_restrict.then(|| Remark::error(path, Reason::Required, text))
}

/// Whether an ignored kind belongs to Gateway API, so that users expect it to work.
pub(crate) fn is_gateway_kind(kind: &str) -> bool {
    kind.split_once('/')
        .is_some_and(|(group, rest)| group == GATEWAY_GROUP && !rest.ends_with(" GatewayClass"))
}

const DEFAULT_NAMESPACE: &str = "default";
