//! The path of a field in an object: `spec.rules[0].matches[1].path`,
//! `metadata.annotations[example.com/team]`.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

/// A field of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldPath(Vec<PathStep>);

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum PathStep {
    Field(Cow<'static, str>),
    Item(usize),
}

impl FieldPath {
    /// Parses a path in the format of [`fmt::Display`]. A bracket without an index contains a
    /// field's name.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut path = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            let bracketed = rest
                .strip_prefix('[')
                .and_then(|inner| inner.split_once(']'));
            if let Some((inside, after)) = bracketed {
                path.0.push(inside.parse().map_or_else(
                    |_| PathStep::Field(inside.to_owned().into()),
                    PathStep::Item,
                ));
                rest = after;
                continue;
            }
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            // An unclosed bracket is part of a name.
            let end = if end == 0 { rest.len() } else { end };
            let (name, after) = rest.split_at(end);
            path.0.push(PathStep::Field(name.to_owned().into()));
            rest = after;
        }
        path
    }

    /// The value at the path.
    pub(crate) fn within<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(value, |value, step| match step {
            PathStep::Field(name) => value.get(name.as_ref()),
            PathStep::Item(index) => value.get(*index),
        })
    }

    pub(crate) fn steps(&self) -> &[PathStep] {
        &self.0
    }

    /// Its names, without list indices.
    pub(crate) fn names(&self) -> Vec<&str> {
        let names = self.0.iter().filter_map(|step| match step {
            PathStep::Field(name) => Some(name.as_ref()),
            PathStep::Item(_) => None,
        });
        names.collect()
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, step: PathStep) {
        self.0.push(step);
    }

    pub(crate) fn push_field(&mut self, name: &str) {
        self.0.push(PathStep::Field(name.to_owned().into()));
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    /// The field of this name under this path.
    pub(crate) fn field(&self, name: &str) -> Self {
        let mut path = self.clone();
        path.push_field(name);
        path
    }
}

impl FromIterator<PathStep> for FieldPath {
    fn from_iter<T: IntoIterator<Item = PathStep>>(steps: T) -> Self {
        Self(steps.into_iter().collect())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Item(item) => write!(f, "[{item}]")?,
                PathStep::Field(name) if name.contains(['.', '[']) => write!(f, "[{name}]")?,
                PathStep::Field(name) if index == 0 => f.write_str(name)?,
                PathStep::Field(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::FieldPath;

    #[test]
    fn field_paths_round_trip() {
        for text in [
            "",
            "spec",
            "spec.rules[0].matches[12].path.value",
            "metadata.annotations[example.com/team]",
            "data[tls.crt]",
        ] {
            assert_eq!(FieldPath::parse(text).to_string(), text);
        }
    }

    #[test]
    fn parsing_a_field_path_never_panics() {
        for text in ["[", "]", "..", "a[", "a[]", ".a", "a.", "[x", "[0][1]"] {
            let _ = FieldPath::parse(text).to_string();
        }
    }
}
