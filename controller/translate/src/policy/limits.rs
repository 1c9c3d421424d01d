//! Lowers the limits of a traffic policy.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use xds::limits_table;
use xds::model::{Limits, Timeout};

use super::api::LimitsSpec;
use crate::route::rule::duration;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

macro_rules! lower_limits {
    ($($(#[$doc:meta])* $field:ident $name:literal:
        $kind:ident, $scope:ident, $default:literal, $least:literal..=$most:literal;)*) => {
        pub(super) fn limits(spec: &LimitsSpec) -> Result<Limits, Problem> {
            Ok(Limits {
                $($field: {
                    let written = spec.$field.as_ref();
                    let field = concat!("spec.limits.", $name);
                    written.map(|it| it.lower(field)).transpose()?
                },)*
            })
        }
    };
}

limits_table!(lower_limits);

/// The value of a limit in a policy object.
trait WrittenLimit {
    type Given;

    fn lower(&self, field: &str) -> Result<Self::Given, Problem>;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl WrittenLimit for $number {
            type Given = Self;

            fn lower(&self, _: &str) -> Result<Self, Problem> {
                Ok(*self)
            }
        })*
    };
}

numbers!(u32, u64, NonZeroU32, NonZeroU64);

impl WrittenLimit for String {
    type Given = Timeout;

    fn lower(&self, field: &str) -> Result<Timeout, Problem> {
        time(self, field).map(Timeout::from)
    }
}

/// Reduces numbers that were valid in earlier versions to the maximum.
pub(super) fn reduce(limits: &mut Limits) -> Vec<Problem> {
    let fields = [
        ("requestLineBytes", &mut limits.request_line_bytes),
        ("headBytes", &mut limits.head_bytes),
    ];
    let reduced = fields.into_iter().filter_map(|(name, number)| {
        let max = u32::try_from(Limits::row(name)?.most).ok()?;
        let written = number.filter(|it| it.get() > max)?;
        *number = NonZeroU32::new(max);
        let message = format!("{written} is more than the maximum of {max}, which applies instead");
        let field = format!("spec.limits.{name}");
        Some(Problem::new(Reason::Invalid, &field, message))
    });
    reduced.collect()
}

/// A duration in a field of a policy.
pub(super) fn time(text: &str, field: &str) -> Result<Duration, Problem> {
    let parsed = duration(text, field).map(|duration| duration.0);
    parsed.map_err(|problem| Problem {
        reason: Reason::Invalid,
        ..problem
    })
}
