//! Walks an object and collects problems, each with the field's path.

use serde::Serialize;
use serde_json::Value;

use super::finding::{Reason, Remark};
use super::path::{FieldPath, PathStep};
use super::suggest;

/// A walk over one object.
#[derive(Debug)]
pub(crate) struct Check {
    /// The object as written.
    written: Value,
    path: FieldPath,
    remarks: Vec<Remark>,
}

impl Check {
    /// Starts at the root of an object.
    pub(crate) fn of(written: Value) -> Self {
        Self {
            written,
            path: FieldPath::default(),
            remarks: Vec::new(),
        }
    }

    pub(crate) fn into_remarks(self) -> Vec<Remark> {
        self.remarks
    }

    /// Rejects the object because of the current field.
    pub(crate) fn refuse(&mut self, text: impl Into<String>) {
        self.refuse_for(Reason::Invalid, text);
    }

    pub(crate) fn refuse_for(&mut self, reason: Reason, text: impl Into<String>) {
        self.remarks.push(Remark::error(&self.path, reason, text));
    }

    /// Rejects the object unless the current text is one of `allowed`; returns whether it is.
    pub(crate) fn is_one_of(&mut self, allowed: &[&str]) -> bool {
        let is_allowed = allowed.contains(&self.text());
        if !is_allowed {
            self.refuse_all_but(allowed);
        }
        is_allowed
    }

    /// Rejects the object unless a required value is one of `allowed`, without consulting what is written.
    pub(crate) fn is_value_of(&mut self, given: &impl Serialize, allowed: &[&str]) -> bool {
        let given = serde_json::to_value(given).unwrap_or_default();
        let is_allowed = given.as_str().is_some_and(|it| allowed.contains(&it));
        if !is_allowed {
            self.refuse_all_but(allowed);
        }
        is_allowed
    }

    /// The current text, as written.
    fn text(&self) -> &str {
        let value = self.path.within(&self.written);
        value.and_then(Value::as_str).unwrap_or_default()
    }

    /// Rejects the object for a value that is not one of `allowed`.
    pub(crate) fn refuse_all_but(&mut self, allowed: &[&str]) {
        let given = self.text();
        let hint = suggest::hint(given, allowed.iter().copied());
        self.refuse(format!(
            "`{given}` is not one of {}{hint}",
            allowed.join(", ")
        ));
    }

    /// Warns that the current field has no effect, or not the apparent one.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        let remark = Remark::warning(&self.path, Reason::UnsupportedField, text);
        self.remarks.push(remark);
    }

    /// Rejects the object because `name` is missing.
    pub(crate) fn missing(&mut self, name: &'static str, text: impl Into<String>) {
        self.field(name, |check| check.refuse_for(Reason::Required, text));
    }

    pub(crate) fn field(&mut self, name: &'static str, inside: impl FnOnce(&mut Self)) {
        self.path.push(PathStep::Field(name.into()));
        inside(self);
        self.path.pop();
    }

    /// Enters an entry of a mapping.
    pub(crate) fn entry(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.path.push_field(name);
        inside(self);
        self.path.pop();
    }

    /// Enters each item of a field.
    pub(crate) fn each<T>(
        &mut self,
        name: &'static str,
        items: &[T],
        mut inside: impl FnMut(&mut Self, &T),
    ) {
        self.field(name, |check| {
            for (index, item) in items.iter().enumerate() {
                check.path.push(PathStep::Item(index));
                inside(check, item);
                check.path.pop();
            }
        });
    }

    /// Rejects a field with more than `max` items.
    pub(crate) fn at_most(&mut self, name: &'static str, count: usize, max: usize) {
        if count > max {
            let text = format!("has {count} items: at most {max} are allowed");
            self.field(name, |check| check.refuse_for(Reason::TooMany, text));
        }
    }

    /// Rejects a list with a duplicate key; items without a key are ignored.
    pub(crate) fn distinct<'a, T, K: PartialEq>(
        &mut self,
        name: &'static str,
        items: &'a [T],
        what: &str,
        key: impl Fn(&'a T) -> Option<K>,
    ) {
        let mut seen: Vec<(usize, K)> = Vec::new();
        let mut twice = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let Some(key) = key(item) else { continue };
            match seen.iter().find(|(_, other)| *other == key) {
                Some((first, _)) => twice.push((index, *first)),
                None => seen.push((index, key)),
            }
        }
        self.field(name, |check| {
            for (index, first) in twice {
                check.path.push(PathStep::Item(index));
                let text = format!("has the same {what} as item {first}: each must be unique");
                check.refuse_for(Reason::Duplicate, text);
                check.path.pop();
            }
        });
    }

    /// Rejects the current text if `parse` fails.
    pub(crate) fn fits(&mut self, text: &str, parse: fn(&str) -> Result<(), String>) {
        if let Err(why) = parse(text) {
            self.refuse(why);
        }
    }

    /// [`Self::fits`] for an optional field.
    pub(crate) fn fits_field(
        &mut self,
        name: &'static str,
        text: Option<&str>,
        parse: fn(&str) -> Result<(), String>,
    ) {
        if let Some(text) = text {
            self.field(name, |check| check.fits(text, parse));
        }
    }
}
