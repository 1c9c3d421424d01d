//! Selects the mirrors of a request: one random draw for each mirror and request.

use xds::model::{self, Fraction, Target};

/// A mirror filter, with its fraction as a threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// The backend that receives the copies.
    pub target: Target,
    /// Whether this request is copied.
    pub rate: SampleRate,
}

impl Mirror {
    /// Compiles a mirror filter.
    #[must_use]
    pub fn compile(mirror: &model::Mirror) -> Self {
        Self {
            target: mirror.target.clone(),
            rate: SampleRate::new(mirror.fraction),
        }
    }
}

/// A random draw with a fixed probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRate {
    /// Numbers below it win.
    below: u128,
}

impl SampleRate {
    /// A draw with this probability; `None` means always.
    #[must_use]
    pub fn new(fraction: Option<Fraction>) -> Self {
        let below = fraction.map_or(ALL, |fraction| {
            let denominator = u128::from(fraction.denominator.get());
            let share = ALL.saturating_mul(u128::from(fraction.numerator));
            share.checked_div(denominator).unwrap_or(ALL)
        });
        Self { below }
    }

    /// Draws with 64 random bits that are used only here: all draws are independent.
    #[must_use]
    pub fn samples(self, random: u64) -> bool {
        u128::from(random) < self.below
    }
}

/// Number of possible values.
const ALL: u128 = 1 << 64;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use xds::model::Fraction;

    use super::SampleRate;

    fn sample_rate(numerator: u32, denominator: u32) -> SampleRate {
        let denominator = NonZeroU32::new(denominator).expect("not zero");
        SampleRate::new(Some(Fraction {
            numerator,
            denominator,
        }))
    }

    #[test]
    fn fractions_of_zero_one_and_none() {
        for random in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(!sample_rate(0, 100).samples(random));
            assert!(sample_rate(100, 100).samples(random));
            assert!(sample_rate(u32::MAX, u32::MAX).samples(random));
            assert!(SampleRate::new(None).samples(random));
        }
    }

    #[test]
    fn the_threshold_of_one_half_is_exact() {
        assert!(sample_rate(1, 2).samples((1 << 63) - 1));
        assert!(!sample_rate(1, 2).samples(1 << 63));
    }

    #[test]
    fn the_sampled_share_equals_the_fraction() {
        for percent in [1_u32, 20, 35, 50, 99] {
            let rate = sample_rate(percent, 100);
            let step = u64::MAX / 9_999;
            let landed = (0..10_000_u64).filter(|at| rate.samples(at * step)).count();
            let expected = usize::try_from(percent).expect("small") * 100;
            assert!(
                landed.abs_diff(expected) <= 1,
                "{percent} % landed {landed}"
            );
        }
    }
}
