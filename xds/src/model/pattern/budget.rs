//! The expressions of one object of a user.

use std::collections::HashSet;

use super::{InvalidPattern, Pattern, Purpose, syntax};

/// Takes the expressions of one object in their order, as long as they fit: each distinct text counts
/// once, as it is compiled once. Depends on the texts only, so that the result is the same everywhere.
///
/// Bounds the work too: whatever an object contains, no more than its budget is compiled.
#[derive(Debug)]
pub struct PatternBudget {
    limit: usize,
    purpose: Purpose,
    patterns: Vec<Pattern>,
    texts: HashSet<Pattern>,
    bytes: usize,
    /// What they would take with the first one that was refused for it.
    exceeded: Option<usize>,
    invalid: usize,
    too_large: usize,
}

impl Default for PatternBudget {
    fn default() -> Self {
        Self::of(Self::MAX_BYTES)
    }
}

impl PatternBudget {
    /// The largest sum of the compiled expressions of one object: 2 MiB, some 700 ordinary ones.
    pub const MAX_BYTES: usize = 2 * 1024 * 1024;
    /// Most invalid expressions of an object that are compiled to tell why they are: 16, more than a
    /// status lists. To compile one until its size is too large takes as long as a large one.
    pub const MAX_INVALID: usize = 16;

    /// A budget of `limit` bytes.
    #[must_use]
    pub fn of(limit: usize) -> Self {
        Self {
            limit,
            purpose: Purpose::Check,
            patterns: Vec::new(),
            texts: HashSet::new(),
            bytes: 0,
            exceeded: None,
            invalid: 0,
            too_large: 0,
        }
    }

    /// The same, which compiles expressions for matching, as long as those of the process fit.
    #[must_use]
    pub fn for_matching() -> Self {
        Self {
            purpose: Purpose::Match,
            ..Self::default()
        }
    }

    /// Takes an expression, if it is valid and fits. After the first one that does not fit no other is
    /// compiled.
    ///
    /// # Errors
    /// The expression is invalid or exceeds the budget.
    pub fn parse(&mut self, text: &str) -> Result<Pattern, InvalidPattern> {
        self.check_open()?;
        let parsed = Pattern::of_text(text, self.purpose);
        let pattern = parsed.inspect_err(|error| {
            self.invalid += 1;
            self.too_large += usize::from(matches!(error, InvalidPattern::TooLarge(_)));
        })?;
        if self.texts.contains(&pattern) {
            return Ok(pattern);
        }
        let bytes = self.bytes.saturating_add(pattern.compiled_bytes());
        if bytes > self.limit {
            self.exceeded = Some(bytes);
            return Err(self.over_budget(bytes));
        }
        self.bytes = bytes;
        self.texts.insert(pattern.clone());
        self.patterns.push(pattern.clone());
        Ok(pattern)
    }

    /// Checks the length and syntax of a part of an expression, which is taken as a whole later.
    ///
    /// # Errors
    /// The part is invalid, or no further expression is taken.
    pub fn check(&mut self, text: &str) -> Result<(), InvalidPattern> {
        self.check_open()?;
        let checked = Pattern::check_length(text).and_then(|()| syntax::parse(text).map(drop));
        checked.inspect_err(|_| self.invalid += 1)
    }

    fn over_budget(&self, bytes: usize) -> InvalidPattern {
        let limit = self.limit;
        InvalidPattern::OverBudget { bytes, limit }
    }

    fn check_open(&self) -> Result<(), InvalidPattern> {
        match self.exceeded {
            Some(bytes) => Err(self.over_budget(bytes)),
            None if self.invalid >= Self::MAX_INVALID => {
                Err(InvalidPattern::NotChecked(self.invalid))
            }
            None => Ok(()),
        }
    }

    /// What the expressions take when compiled, in bytes; with the first one that exceeds the budget, if
    /// any does.
    #[must_use]
    pub fn used(&self) -> usize {
        self.exceeded.unwrap_or(self.bytes)
    }

    /// What the largest expression takes, in bytes, and how many were refused because they alone are too
    /// large.
    #[must_use]
    pub fn largest(&self) -> (usize, usize) {
        let bytes = self.patterns.iter().map(Pattern::compiled_bytes);
        (bytes.max().unwrap_or_default(), self.too_large)
    }

    /// The expressions that were taken, each once.
    #[must_use]
    pub fn into_patterns(self) -> Box<[Pattern]> {
        self.patterns.into()
    }
}
