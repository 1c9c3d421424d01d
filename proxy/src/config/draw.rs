//! Draws by weight.

use rand::{Rng, RngExt};

use crate::policy::hash_key::RequestKey;

/// Draws positions by weight, exactly and independently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draw(Weights);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Weights {
    /// None is above 0.
    Zero,
    /// The first position is the only one.
    One,
    /// So many equal ones.
    Equal(u32),
    /// Cumulative weights.
    Sums(Box<[u64]>),
}

impl Draw {
    /// Compiles weights; those of 0 are never drawn.
    #[must_use]
    pub fn new(weights: &[u32]) -> Self {
        let equal = weights.windows(2).all(|pair| pair[0] == pair[1]);
        let sums = weights.iter().scan(0, |sum: &mut u64, weight| {
            *sum += u64::from(*weight);
            Some(*sum)
        });
        Self(match weights {
            [] | [0] => Weights::Zero,
            [_] => Weights::One,
            [0, ..] if equal => Weights::Zero,
            _ if equal => Weights::Equal(u32::try_from(weights.len()).unwrap_or(u32::MAX)),
            _ => Weights::Sums(sums.collect()),
        })
    }

    /// The position of a request's key; `None` if there is none or every weight is 0.
    pub(crate) fn of(&self, key: RequestKey) -> Option<usize> {
        match &self.0 {
            Weights::Zero => None,
            Weights::One => Some(0),
            Weights::Equal(count) => usize::try_from(key.share(u64::from(*count))).ok(),
            Weights::Sums(sums) => {
                let at = key.share(*sums.last()?);
                Some(sums.partition_point(|sum| *sum <= at))
            }
        }
    }

    /// Draws a position; `None` if there is none or every weight is 0.
    pub fn draw(&self, rng: &mut impl Rng) -> Option<usize> {
        match &self.0 {
            Weights::Zero => None,
            Weights::One => Some(0),
            Weights::Equal(count) => Some(rng.random_range(0..*count) as usize),
            Weights::Sums(sums) => {
                let at = rng.random_range(0..*sums.last()?);
                Some(sums.partition_point(|sum| *sum <= at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::Draw;

    #[test]
    fn backends_get_exactly_their_weights() {
        let mut rng = SmallRng::seed_from_u64(3);
        for weights in [
            &[1, 1][..],
            &[70, 30],
            &[9, 0, 1],
            &[5],
            &[1_000_000, 1_000_000, 2_000_000],
        ] {
            let draw = Draw::new(weights);
            let mut counts = vec![0_u32; weights.len()];
            for _ in 0..20_000 {
                counts[draw.draw(&mut rng).expect("not all are 0")] += 1;
            }
            let total: f64 = weights.iter().copied().map(f64::from).sum();
            for (count, weight) in counts.iter().zip(weights) {
                let off = f64::from(*count) / 20_000.0 - f64::from(*weight) / total;
                assert!(off.abs() < 0.02, "{weights:?}: {counts:?}");
                assert!(*weight > 0 || *count == 0, "weight 0 gets nothing");
            }
        }
        assert_eq!(Draw::new(&[0, 0]).draw(&mut rng), None);
        assert_eq!(Draw::new(&[]).draw(&mut rng), None);
    }
}
