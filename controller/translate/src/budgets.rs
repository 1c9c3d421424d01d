//! Every budget of the control plane: what an object may cost everybody who shares its Gateway or the
//! controller.
//!
//! A budget is a variant of [`Budget`] and an entry of its table, with unit, default, upper bound and
//! reason. An object that exceeds one is refused in its own status, and nothing else changes. The table
//! of budgets in `k8s/OPERATING.md` has the same rows, which a test compares.

use std::fmt;
use std::sync::LazyLock;

use crate::reason::Reason;

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

budgets! {
    /// Rules of a route, times its listeners.
    RouteRules = Definition {
        name: "route_rules",
        counts: "rules of a route times its listeners",
        unit: Unit::Count,
        default: 4_096,
        cap: 4_096,
        condition: "route `Accepted=False`",
        reason: Some(Reason::UnsupportedValue),
        raised_by: "nobody",
        why: "each is a resource of its own at every proxy; a route has up to 16 rules, and a Gateway 64 \
              listeners of its own",
    };
    /// Bytes of one resource in wire form.
    ResourceBytes = Definition {
        name: "resource_bytes",
        counts: "a rule, policy, Service or endpoint as it is sent to proxies",
        unit: Unit::Bytes,
        default: MIB,
        cap: MIB,
        condition: "object `Accepted=False`; its previous version serves",
        reason: Some(Reason::UnsupportedValue),
        raised_by: "nobody",
        why: "about the limit of an object in etcd; a response carries at least one resource",
    };
}

impl Budget {
    /// Its definition.
    #[must_use]
    pub fn definition(self) -> &'static Definition {
        // The array has an entry for each variant.
        &DEFINITIONS[self as usize]
    }

    /// The budget as a row of the table in `k8s/OPERATING.md`.
    #[must_use]
    pub fn table_row(self) -> String {
        let it = self.definition();
        let cap = if it.cap == it.default {
            "–".to_owned()
        } else {
            it.unit.text(it.cap)
        };
        let reason = it.reason.map_or_else(String::new, |it| format!(", `{it}`"));
        format!(
            "| `{}` | {} | {} | {cap} | {}{reason} | {} | {} |",
            it.name,
            it.counts,
            it.unit.text(it.default),
            it.condition,
            it.raised_by,
            it.why
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

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.definition().name)
    }
}

/// The limit of each budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits([u64; COUNT]);

impl Limits {
    /// The limit of a budget.
    #[must_use]
    pub fn of(&self, budget: Budget) -> u64 {
        self.0[budget as usize]
    }

    /// Sets the limit of a budget, at most its cap.
    #[must_use]
    pub fn with(mut self, budget: Budget, limit: u64) -> Self {
        self.0[budget as usize] = limit.min(budget.definition().cap);
        self
    }
}

/// The defaults of the table.
impl Default for Limits {
    fn default() -> Self {
        static DEFAULTS: LazyLock<[u64; COUNT]> =
            LazyLock::new(|| Budget::ALL.map(|budget| budget.definition().default));
        Self(*DEFAULTS)
    }
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_budget_has_a_name_of_its_own_and_a_default_within_its_cap() {
        let names: BTreeSet<&str> = Budget::ALL.iter().map(|it| it.definition().name).collect();
        assert_eq!(names.len(), Budget::ALL.len());
        for budget in Budget::ALL {
            let definition = budget.definition();
            assert!(definition.default <= definition.cap, "{budget}");
            let is_fixed = definition.default == definition.cap;
            assert_eq!(is_fixed, definition.raised_by == "nobody", "{budget}");
        }
    }

    #[test]
    fn a_limit_is_at_most_its_cap() {
        let limits = Limits::default().with(Budget::RouteRules, u64::MAX);
        assert_eq!(limits, Limits::default());
        let limits = limits.with(Budget::RouteRules, 2);
        assert_eq!(limits.of(Budget::RouteRules), 2);
        assert_eq!(limits.of(Budget::ResourceBytes), MIB);
    }

    #[test]
    fn numbers_are_written_with_their_unit() {
        assert_eq!(Unit::Bytes.text(2 * MIB), "2 MiB");
        assert_eq!(Unit::Bytes.text(MIB + KIB), "1025 KiB");
        assert_eq!(Unit::Bytes.text(7), "7 bytes");
        assert_eq!(Unit::Count.text(4_096), "4096");
    }
}
