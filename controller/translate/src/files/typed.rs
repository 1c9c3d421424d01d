//! Converts a value to a typed object: serde's errors become remarks with field and advice.

use serde_json::Value;

use super::check::Check;
use super::finding::{Reason, Remark, Severity};
use super::path::{FieldPath, PathStep};
use super::suggest;
use crate::objects::admission::Admissible;
use crate::objects::store::Object;

/// Reads and validates an object. `None` if a remark is an error.
pub(crate) fn read<T: Admissible>(mut value: Value) -> (Option<Object>, Vec<Remark>) {
    let mut remarks = T::schema()
        .map(|schema| schema.admit(&mut value))
        .unwrap_or_default();
    if has_errors(&remarks) {
        return (None, remarks);
    }
    let mut unknown = Vec::new();
    // A trait object, so that generic code is compiled once and not for each kind.
    let note: &mut dyn FnMut(serde_ignored::Path<'_>) =
        &mut |path| unknown.push(ignored_path(&path));
    let read: Result<T, _> = serde_ignored::deserialize(&value, note);
    let mut object = match read {
        Ok(object) => object,
        Err(error) => {
            let path = failed_at::<T>(&value);
            remarks.push(rephrase::<T>(&path, &value, &error.to_string()));
            return (None, remarks);
        }
    };
    unknown.retain(|path| !is_unread::<T>(path));
    if !unknown.is_empty() {
        // Serializing the object again shows which fields its type has.
        let written = serde_json::to_value(&object).unwrap_or_default();
        let unknown = unknown
            .iter()
            .filter_map(|path| unknown_field::<T>(path, &written));
        remarks.extend(unknown);
    }
    let mut check = Check::of(value);
    object.check(&mut check);
    remarks.extend(check.into_remarks());
    object.forget_unread();
    let object = (!has_errors(&remarks)).then(|| object.into());
    (object, remarks)
}

/// Reads an object from JSON, without a value in between. `None` if there could be a remark, if its status
/// is read, or if its kind has a schema: [`read`] does more.
///
/// The API server has validated labels and annotations.
pub(crate) fn read_json<T: Admissible>(json: &str) -> Option<Object> {
    // What is empty may be a mistake.
    if T::READS_STATUS || T::schema().is_some() || json.contains("null") {
        return None;
    }
    let mut has_unknown_fields = false;
    let note: &mut dyn FnMut(serde_ignored::Path<'_>) =
        &mut |path| has_unknown_fields |= !is_unread::<T>(&ignored_path(&path));
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let mut object: T = serde_ignored::deserialize(&mut deserializer, note).ok()?;
    deserializer.end().ok()?;
    // Checks consult the written value mostly for texts. Without it there may be an extra remark, and the
    // object is read in full.
    let mut check = Check::of(Value::Null);
    object.check(&mut check);
    let is_plain = !has_unknown_fields && check.into_remarks().is_empty();
    object.forget_unread();
    // A clone has no room for more items in its lists, which they were read with: a kilobyte in a route.
    is_plain.then(|| object.clone().into())
}

/// Where reading a value fails. It is read again: following the path takes longer than reading.
fn failed_at<T: Admissible>(value: &Value) -> FieldPath {
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    // The error is known.
    let _ = T::deserialize(tracked);
    error_path(&track.path())
}

fn has_errors(remarks: &[Remark]) -> bool {
    remarks
        .iter()
        .any(|remark| remark.severity == Severity::Error)
}

/// Whether a field is not read deliberately, so that it is no finding.
fn is_unread<T: Admissible>(path: &FieldPath) -> bool {
    let plain = path.names().join(".");
    is_listed(&plain, &METADATA_UNREAD) || is_listed(&plain, T::UNREAD)
}

/// Whether a list of fields contains this one, or a field that it is in.
fn is_listed(field: &str, fields: &[&str]) -> bool {
    let covers = |listed: &&str| {
        field
            .strip_prefix(*listed)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    fields.iter().any(covers)
}

fn unknown_field<T: Admissible>(path: &FieldPath, written: &Value) -> Option<Remark> {
    let plain = path.names().join(".");
    if is_listed(&plain, T::UNSUPPORTED) {
        let text = "is not supported by this version: it has no effect";
        return Some(Remark::warning(path, Reason::UnsupportedField, text));
    }
    let (last, parents) = path.steps().split_last()?;
    let parent = parents.iter().cloned().collect::<FieldPath>();
    let parent = parent.within(written);
    let read = parent
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|fields| fields.keys());
    let unread = T::UNREAD.iter().chain(T::UNSUPPORTED).filter_map(|field| {
        let (above, name) = field.rsplit_once('.')?;
        (plain.rsplit_once('.')?.0 == above).then_some(name)
    });
    let hint = match last {
        PathStep::Field(name) => suggest::hint(name, read.map(String::as_str).chain(unread)),
        PathStep::Item(_) => String::new(),
    };
    let text = format!("unknown field{hint}");
    Some(Remark::warning(path, Reason::UnknownField, text))
}

/// Rephrases an error of serde.
fn rephrase<T: Admissible>(path: &FieldPath, value: &Value, error: &str) -> Remark {
    if let Some(field) = quoted(error, "missing field ") {
        let text = "is required";
        return Remark::error(&path.field(field), Reason::Required, text);
    }
    if let Some(variant) = quoted(error, "unknown variant ").filter(|_| !T::SECRET) {
        let expected = error.split_once("expected ").map_or("", |(_, list)| list);
        let known: Vec<_> = expected.split('`').skip(1).step_by(2).collect();
        let hint = suggest::hint(variant, known.iter().copied());
        let text = format!("`{variant}` is not one of {}{hint}", known.join(", "));
        return Remark::error(path, Reason::Invalid, text);
    }
    let at = path.within(value);
    let Some((_, expected)) = error.rsplit_once("expected ") else {
        let text = if T::SECRET {
            "is not base64: encode it with `base64 -w0`, or write the plain text under stringData"
        } else {
            error
        };
        return Remark::error(path, Reason::Invalid, text);
    };
    let shown = if T::SECRET {
        "the value".to_owned()
    } else {
        brief(at)
    };
    let text = format!(
        "{shown} is not {}{}",
        in_words(expected),
        remedy(at, expected)
    );
    let reason = if error.starts_with("invalid value") {
        Reason::Invalid
    } else {
        Reason::WrongType
    };
    Remark::error(path, reason, text)
}

/// The text in backquotes after `start`.
fn quoted<'a>(error: &'a str, start: &str) -> Option<&'a str> {
    error
        .strip_prefix(start)?
        .strip_prefix('`')?
        .split('`')
        .next()
}

fn brief(value: Option<&Value>) -> String {
    match value {
        None => "it".to_owned(),
        Some(Value::Object(_)) => "a mapping".to_owned(),
        Some(Value::Array(_)) => "a list".to_owned(),
        Some(scalar) => scalar.to_string(),
    }
}

fn in_words(expected: &str) -> &str {
    match expected {
        "a string" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a mapping",
        "u16" => "an integer from 0 to 65535",
        "a nonzero u16" => "an integer from 1 to 65535",
        "u32" => "an integer from 0 to 4294967295",
        "a nonzero u32" => "an integer from 1 to 4294967295",
        "i64" => "an integer",
        struct_ if struct_.starts_with("struct ") => "a mapping",
        other => other,
    }
}

fn remedy(value: Option<&Value>, expected: &str) -> &'static str {
    match value {
        Some(Value::Object(_)) if expected == "a sequence" => ": put `- ` before each item",
        Some(_) if expected == "a sequence" => ": put it in brackets",
        Some(Value::Number(_) | Value::Bool(_)) if expected == "a string" => ": quote it",
        Some(Value::String(text)) if expected != "a string" => {
            let literal = text.parse::<f64>().is_ok() || text == "true" || text == "false";
            if literal { ": remove the quotes" } else { "" }
        }
        _ => "",
    }
}

fn error_path(path: &serde_path_to_error::Path) -> FieldPath {
    use serde_path_to_error::Segment;
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(PathStep::Item(*index)),
        Segment::Map { key } => Some(PathStep::Field(key.clone().into())),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().filter_map(step).collect()
}

fn ignored_path(path: &serde_ignored::Path<'_>) -> FieldPath {
    use serde_ignored::Path;
    match path {
        Path::Root => FieldPath::default(),
        Path::Seq { parent, index } => {
            let mut path = ignored_path(parent);
            path.push(PathStep::Item(*index));
            path
        }
        Path::Map { parent, key } => ignored_path(parent).field(key),
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => ignored_path(parent),
    }
}

/// Metadata of API servers and clients that is irrelevant here.
const METADATA_UNREAD: [&str; 8] = [
    "metadata.resourceVersion",
    "metadata.generateName",
    "metadata.selfLink",
    "metadata.managedFields",
    "metadata.ownerReferences",
    "metadata.finalizers",
    "metadata.deletionGracePeriodSeconds",
    "metadata.clusterName",
];
