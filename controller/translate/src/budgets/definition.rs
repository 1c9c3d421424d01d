//! What the definition of a budget says, and its units.

use crate::status::reason::Reason;

/// The definition of a budget.
#[derive(Debug)]
pub struct Definition {
    /// Its name, the `budget` label of metrics.
    pub name: &'static str,
    /// What is counted.
    pub counts: &'static str,
    /// The unit of its limit and of what is used.
    pub unit: Unit,
    /// The limit, unless it is raised.
    pub default: u64,
    /// The highest limit that can be set. Equal to the default if nobody can raise it.
    pub cap: u64,
    /// The condition of an object that exceeds it.
    pub condition: &'static str,
    /// The condition's reason; `None` if the object is shortened instead of refused.
    pub reason: Option<Reason>,
    /// Who may set another limit, and how.
    pub raised_by: &'static str,
    /// Why the limit is what it is.
    pub why: &'static str,
}

/// The unit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// A number of things.
    Count,
}

impl Definition {
    /// The budget as a row of the table in `k8s/OPERATING.md`.
    pub(super) fn table_row(&self) -> String {
        let cap = if self.cap == self.default {
            "–".to_owned()
        } else {
            self.unit.text(self.cap)
        };
        let reason = self
            .reason
            .map_or_else(String::new, |it| format!(", `{it}`"));
        format!(
            "| `{}` | {} | {} | {cap} | {}{reason} | {} | {} |",
            self.name,
            self.counts,
            self.unit.text(self.default),
            self.condition,
            self.raised_by,
            self.why
        )
    }
}

impl Unit {
    /// A number of this unit: `64 KiB`, `4096`.
    #[must_use]
    pub fn text(self, number: u64) -> String {
        match self {
            Self::Count => number.to_string(),
            Self::Bytes if number.is_multiple_of(MIB) => format!("{} MiB", number / MIB),
            Self::Bytes if number.is_multiple_of(KIB) => format!("{} KiB", number / KIB),
            Self::Bytes => format!("{number} bytes"),
        }
    }
}

pub(super) const KIB: u64 = 1024;
pub(super) const MIB: u64 = 1024 * KIB;

/// The enum of all budgets, with their definitions in the same order.
macro_rules! budgets {
    ($($(#[$doc:meta])* $budget:ident = $definition:expr;)*) => {
        /// A budget of the control plane.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Budget {
            $($(#[$doc])* $budget,)*
        }

        impl Budget {
            /// All budgets, in the order of the table.
            pub const ALL: [Self; COUNT] = [$(Self::$budget),*];
        }

        const COUNT: usize = [$(stringify!($budget)),*].len();

        static DEFINITIONS: [Definition; COUNT] = [$($definition),*];
    };
}
pub(super) use budgets;
