//! How long a text of a status may be.

use std::borrow::Cow;

use crate::budgets::Budget;

/// A text for a condition or an Event, at most as long as its budget.
#[must_use]
pub fn shortened(text: Cow<'static, str>) -> Cow<'static, str> {
    to_length(text, message_bytes())
}

/// The limit of one text in bytes.
pub(crate) fn message_bytes() -> usize {
    limit(Budget::MessageBytes)
}

pub(super) fn to_length(text: Cow<'static, str>, length: usize) -> Cow<'static, str> {
    if text.len() <= length {
        return text;
    }
    let end = text.floor_char_boundary(length.saturating_sub(CUT.len()));
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept}{CUT}").into()
}

pub(super) fn limit(budget: Budget) -> usize {
    usize::try_from(budget.definition().default).unwrap_or(usize::MAX)
}

/// The end of a text that was cut.
pub(super) const CUT: &str = "… (shortened)";
