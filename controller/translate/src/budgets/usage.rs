//! What is used of a budget.

/// What an object uses of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    pub(crate) used: u64,
    pub(crate) limit: u64,
    /// Number of objects that are refused for it.
    pub(crate) refused: u32,
}

impl Use {
    /// The use of an object of its own budget. `None` below half of the limit: most objects are far
    /// below, and keeping them all would cost memory for nothing.
    pub(crate) fn of_object(used: u64, limit: u64) -> Option<Self> {
        let is_refused = used > limit;
        (used > limit / 2).then_some(Self {
            used,
            limit,
            refused: u32::from(is_refused),
        })
    }
}
