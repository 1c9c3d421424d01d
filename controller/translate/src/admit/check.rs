//! Walks an object and collects what is wrong with it, each remark with the field's path.

use serde_json::Value;

use super::finding::{Reason, Remark};
use super::path::{FieldPath, Step};
use super::suggest;

/// A walk over one object.
#[derive(Debug)]
pub(super) struct Check {
    /// The object as it was written.
    written: Value,
    path: FieldPath,
    remarks: Vec<Remark>,
}

impl Check {
    /// Begins at the root of the object that was written so.
    pub(super) fn of(written: Value) -> Self {
        Self {
            written,
            path: FieldPath::default(),
            remarks: Vec::new(),
        }
    }

    pub(super) fn into_remarks(self) -> Vec<Remark> {
        self.remarks
    }

    /// Refuses the object for the field that the walk stands at.
    pub(super) fn refuse(&mut self, text: impl Into<String>) {
        self.refuse_for(Reason::Invalid, text);
    }

    pub(super) fn refuse_for(&mut self, reason: Reason, text: impl Into<String>) {
        self.remarks.push(Remark::error(&self.path, reason, text));
    }

    /// Refuses the object where the text that the walk stands at is not one of `allowed`; says
    /// whether it is.
    pub(super) fn is_one_of(&mut self, allowed: &[&str]) -> bool {
        let is_allowed = allowed.contains(&self.text());
        if !is_allowed {
            self.refuse_all_but(allowed);
        }
        is_allowed
    }

    /// The text that the walk stands at, as it was written.
    fn text(&self) -> &str {
        let value = self.path.within(&self.written);
        value.and_then(Value::as_str).unwrap_or_default()
    }

    /// Refuses the object for a value that is not one of `allowed`.
    pub(super) fn refuse_all_but(&mut self, allowed: &[&str]) {
        let given = self.text();
        let hint = suggest::hint(given, allowed.iter().copied());
        self.refuse(format!(
            "`{given}` is not one of {}{hint}",
            allowed.join(", ")
        ));
    }

    /// Says that the field that the walk stands at has no effect, or not the one it seems to have.
    pub(super) fn warn(&mut self, text: impl Into<String>) {
        let remark = Remark::warning(&self.path, Reason::UnsupportedField, text);
        self.remarks.push(remark);
    }

    /// Refuses the object for want of `name`.
    pub(super) fn missing(&mut self, name: &'static str, text: impl Into<String>) {
        self.field(name, |check| check.refuse_for(Reason::Required, text));
    }

    /// Steps into a field.
    pub(super) fn field(&mut self, name: &'static str, inside: impl FnOnce(&mut Self)) {
        self.path.push(Step::Field(name.into()));
        inside(self);
        self.path.pop();
    }

    /// Steps into the entry of a mapping.
    pub(super) fn entry(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.path.push_field(name);
        inside(self);
        self.path.pop();
    }

    /// Steps into each item of a field.
    pub(super) fn each<T>(
        &mut self,
        name: &'static str,
        items: &[T],
        mut inside: impl FnMut(&mut Self, &T),
    ) {
        self.field(name, |check| {
            for (index, item) in items.iter().enumerate() {
                check.path.push(Step::Item(index));
                inside(check, item);
                check.path.pop();
            }
        });
    }

    /// Refuses a field with more than `most` items, whatever they are.
    pub(super) fn at_most(&mut self, name: &'static str, count: usize, most: usize) {
        if count > most {
            let text = format!("has {count} items: at most {most} are allowed");
            self.field(name, |check| check.refuse_for(Reason::TooMany, text));
        }
    }

    /// Refuses a list that has an item's key twice; items without a key count for nothing.
    pub(super) fn distinct<'a, T, K: PartialEq>(
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
                check.path.push(Step::Item(index));
                let text = format!("has the same {what} as item {first}: each may be there once");
                check.refuse_for(Reason::Duplicate, text);
                check.path.pop();
            }
        });
    }

    /// Refuses the text that the walk stands at where `parse` says why.
    pub(super) fn fits(&mut self, text: &str, parse: fn(&str) -> Result<(), String>) {
        if let Err(why) = parse(text) {
            self.refuse(why);
        }
    }

    /// [`Self::fits`] for an optional field.
    pub(super) fn fits_field(
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
