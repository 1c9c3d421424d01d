//! A position in a message, and the list of problems found.
//!
//! Readers return `None` after recording a problem, and read all fields before they give up, so
//! that one response names every problem.

use std::cell::RefCell;
use std::fmt::Display;

use super::Problem;
use crate::model::{Pattern, PatternBudget};

/// What is known about a message so far.
pub(super) struct Findings {
    problems: RefCell<Vec<Problem>>,
    left_out: RefCell<Vec<Problem>>,
    patterns: RefCell<PatternBudget>,
}

impl Findings {
    pub(super) fn new() -> Self {
        Self {
            problems: RefCell::default(),
            left_out: RefCell::default(),
            patterns: RefCell::new(PatternBudget::for_matching()),
        }
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    /// The problems of what is left out, after those of the rest.
    pub(super) fn into_parts(self) -> (Vec<Problem>, Vec<Problem>) {
        (self.problems.into_inner(), self.left_out.into_inner())
    }
}

/// A field, an item of a list, or the whole message.
#[derive(Clone, Copy)]
pub(super) struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    step: PathSegment,
    found: &'a Findings,
}

#[derive(Clone, Copy)]
enum PathSegment {
    Whole,
    Field(&'static str),
    Item(usize),
}

impl<'a> FieldPath<'a> {
    /// The whole message; problems are added to `found`.
    pub(super) fn root(found: &'a Findings) -> Self {
        Self {
            parent: None,
            step: PathSegment::Whole,
            found,
        }
    }

    /// A field of this message.
    pub(super) fn field(&self, name: &'static str) -> FieldPath<'_> {
        self.step(PathSegment::Field(name))
    }

    fn step(&self, step: PathSegment) -> FieldPath<'_> {
        FieldPath {
            parent: Some(self),
            step,
            found: self.found,
        }
    }

    /// Records a problem here.
    pub(super) fn problem<T>(&self, text: impl Display) -> Option<T> {
        let problem = Problem {
            field: self.path(),
            text: one_line(&text.to_string()),
        };
        self.found.problems.borrow_mut().push(problem);
        None
    }

    /// Records that a required value is absent.
    pub(super) fn missing<T>(&self) -> Option<T> {
        self.problem("is missing")
    }

    /// Records that no member of a `oneof` is set: it may be one added in a later version.
    pub(super) fn record_missing_choice<T>(&self) -> Option<T> {
        self.problem("is missing, or of a kind unknown to this version")
    }

    /// The value; an error is recorded as a problem.
    pub(super) fn accept<T, E: Display>(&self, result: Result<T, E>) -> Option<T> {
        result.map_or_else(|error| self.problem(error), Some)
    }

    /// A regular expression, compiled for use as long as those of the message and of the process stay
    /// within their limits.
    pub(super) fn pattern(&self, text: &str) -> Option<Pattern> {
        let parsed = self.found.patterns.borrow_mut().parse(text);
        self.accept(parsed)
    }

    /// Parses a field that must not be empty.
    pub(super) fn parsed<T, E: Display>(
        &self,
        name: &'static str,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let at = self.field(name);
        if text.is_empty() {
            return at.missing();
        }
        at.accept(parse(text))
    }

    /// A text that must not be empty.
    pub(super) fn text(&self, name: &'static str, text: String) -> Option<String> {
        if text.is_empty() {
            return self.field(name).missing();
        }
        Some(text)
    }

    /// Reads a required field.
    pub(super) fn required<M, T>(
        &self,
        name: &'static str,
        message: Option<M>,
        read: impl FnOnce(&FieldPath<'_>, M) -> Option<T>,
    ) -> Option<T> {
        let at = self.field(name);
        match message {
            Some(message) => read(&at, message),
            None => at.missing(),
        }
    }

    /// Reads an optional field; the outer `None` means a problem.
    #[expect(
        clippy::option_option,
        reason = "a problem is not the same as an unset field"
    )]
    pub(super) fn optional<M, T>(
        &self,
        name: &'static str,
        message: Option<M>,
        read: impl FnOnce(&FieldPath<'_>, M) -> Option<T>,
    ) -> Option<Option<T>> {
        match message {
            Some(message) => read(&self.field(name), message).map(Some),
            None => Some(None),
        }
    }

    /// Reads an optional field that the rest can do without: one with a problem is left out.
    pub(super) fn dispensable<M, T>(
        &self,
        name: &'static str,
        message: Option<M>,
        read: impl FnOnce(&FieldPath<'_>, M) -> Option<T>,
    ) -> Option<T> {
        let own = Findings::new();
        let at = FieldPath {
            found: &own,
            ..self.field(name)
        };
        let value = read(&at, message?);
        let problems = own.into_problems();
        let value = value.filter(|_| problems.is_empty());
        self.found.left_out.borrow_mut().extend(problems);
        value
    }

    /// Reads all items of a list.
    pub(super) fn list<M, T>(
        &self,
        name: &'static str,
        messages: Vec<M>,
        read: impl Fn(&FieldPath<'_>, M) -> Option<T>,
    ) -> Option<Vec<T>> {
        let at = self.field(name);
        let count = messages.len();
        let items = messages.into_iter().enumerate();
        // Not `collect`, which would keep the memory of the messages: several times as much.
        let mut values: Vec<T> = Vec::with_capacity(count);
        values.extend(
            items.filter_map(|(index, message)| read(&at.step(PathSegment::Item(index)), message)),
        );
        (values.len() == count).then_some(values)
    }

    /// Reads all items of a list that must not be empty.
    pub(super) fn some<M, T>(
        &self,
        name: &'static str,
        messages: Vec<M>,
        read: impl Fn(&FieldPath<'_>, M) -> Option<T>,
    ) -> Option<Vec<T>> {
        if messages.is_empty() {
            return self.field(name).problem("is empty: at least one is needed");
        }
        self.list(name, messages, read)
    }

    /// The path from the resource, such as `http.matches[2].path`.
    fn path(&self) -> String {
        let mut path = self.parent.map(FieldPath::path).unwrap_or_default();
        match self.step {
            PathSegment::Whole => {}
            PathSegment::Field(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            PathSegment::Item(index) => path.extend(["[", &index.to_string(), "]"]),
        }
        path
    }
}

/// Texts quote the input: control characters must not forge log lines.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}
