//! Vertical axes that end on round numbers.

pub(super) struct Scale {
    pub(super) low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// Around `values`: from zero to a round number, or over whole decades.
    pub(super) fn of(values: impl Iterator<Item = f64>, log: bool) -> Self {
        let (low, high) = values
            .filter(|v| v.is_finite() && *v > 0.0)
            .fold((f64::INFINITY, f64::MIN_POSITIVE), |(low, high), v| {
                (low.min(v), high.max(v))
            });
        if log && low.is_finite() {
            return Self {
                low: decade(low.log10().floor()),
                high: decade(high.log10().ceil()),
                log,
            };
        }
        let step = nice_step(high / 5.0);
        Self {
            low: 0.0,
            high: (high / step).ceil() * step,
            log: false,
        }
    }

    /// How far up `value` is, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        let of = |v: f64| if self.log { v.max(self.low).log10() } else { v };
        let span = (of(self.high) - of(self.low)).max(f64::MIN_POSITIVE);
        ((of(value) - of(self.low)) / span).clamp(0.0, 1.0)
    }

    /// Where to draw lines.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let step = nice_step(self.high / 5.0);
        let mut ticks = vec![self.low];
        while let Some(last) = ticks
            .last()
            .copied()
            .filter(|last| *last < self.high * 0.999)
        {
            ticks.push(if self.log { last * 10.0 } else { last + step });
        }
        ticks
    }
}

fn decade(exponent: f64) -> f64 {
    10_f64.powf(exponent)
}

/// The next of 1, 2, 5, 10 … at or above `step`.
fn nice_step(step: f64) -> f64 {
    let base = decade(step.log10().floor());
    let factors = [1.0, 2.0, 5.0];
    factors
        .into_iter()
        .map(|f| f * base)
        .find(|nice| *nice >= step * 0.999)
        .unwrap_or(base * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_on_round_numbers() {
        let linear = Scale::of([3.0, 27.0].into_iter(), false);
        assert_eq!(linear.ticks().len(), 4, "{:?}", linear.ticks());
        let log = Scale::of([30.0, 4000.0].into_iter(), true);
        assert_eq!(log.ticks().len(), 4, "10, 100, 1000, 10000");
    }
}
