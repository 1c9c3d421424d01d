//! Durations as Gateway API writes them (GEP-2257).

use std::fmt;
use std::time::Duration;

use thiserror::Error;

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a duration: use hours, minutes, seconds, milliseconds, such as `1m30s` or `250ms`"
)]
pub struct InvalidDuration(pub String);

/// A duration of GEP-2257: up to four groups of one to five digits with `h`, `m`, `s` or `ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GatewayDuration(pub Duration);

impl GatewayDuration {
    /// Parses `1h30m`, `10s`, `250ms`; `0s` is zero.
    ///
    /// # Errors
    /// The text does not follow GEP-2257.
    pub fn parse(text: &str) -> Result<Self, InvalidDuration> {
        let invalid = || InvalidDuration(text.to_owned());
        let mut rest = text;
        let mut total = Duration::ZERO;
        let mut groups = 0;
        while !rest.is_empty() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, unit_on) = rest.split_at(digits);
            let (unit, millis) = UNITS
                .into_iter()
                .find(|(unit, _)| unit_on.starts_with(unit))
                .ok_or_else(invalid)?;
            groups += 1;
            if !(1..=5).contains(&digits) || groups > 4 {
                return Err(invalid());
            }
            let number: u64 = number.parse().map_err(|_| invalid())?;
            total += Duration::from_millis(number * millis);
            rest = &unit_on[unit.len()..];
        }
        if groups == 0 {
            Err(invalid())
        } else {
            Ok(Self(total))
        }
    }
}

impl fmt::Display for GatewayDuration {
    /// Largest units first, so that the output parses to the same duration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let groups = [
            (seconds / 3600, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
            (self.0.subsec_millis().into(), "ms"),
        ];
        if groups.iter().all(|(count, _)| *count == 0) {
            return f.write_str("0s");
        }
        let mut shown = groups.iter().filter(|(count, _)| *count > 0);
        shown.try_for_each(|(count, unit)| write!(f, "{count}{unit}"))
    }
}

/// Milliseconds of each unit; `ms` stands before `m` because it starts with it.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];

/// A timeout of a route: the proxy's default, none at all (`0s`), or a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeout {
    /// Not set: the default of the limits table applies.
    #[default]
    Default,
    /// No timeout, written `0s`.
    Never,
    /// A duration above zero: build with `Timeout::from`.
    After(Duration),
}

impl Timeout {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::Default
    }

    /// The timeout in effect, where `wider` is the default.
    #[must_use]
    pub fn or(self, wider: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Default => wider,
            Self::Never => None,
            Self::After(time) => Some(time),
        }
    }
}

impl From<Duration> for Timeout {
    fn from(duration: Duration) -> Self {
        if duration.is_zero() {
            Self::Never
        } else {
            Self::After(duration)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::GatewayDuration;

    #[test]
    fn the_examples_of_gep_2257_are_parsed() {
        for (text, millis) in [
            ("0s", 0),
            ("1h", 3_600_000),
            ("1m30s", 90_000),
            ("250ms", 250),
            ("1h2m3s4ms", 3_723_004),
        ] {
            let expected = GatewayDuration(Duration::from_millis(millis));
            assert_eq!(GatewayDuration::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn durations_round_trip() {
        for text in ["0s", "1m30s", "250ms", "99999h", "1h2m3s4ms"] {
            let duration = GatewayDuration::parse(text).expect(text);
            assert_eq!(duration.to_string(), text);
        }
    }

    #[test]
    fn durations_invalid_in_gep_2257_are_rejected() {
        for text in [
            "",
            "0",
            "1",
            "s",
            "1.5s",
            "-1s",
            "1d",
            "1us",
            "123456s",
            "1s1s1s1s1s",
            "1s ",
        ] {
            assert!(GatewayDuration::parse(text).is_err(), "{text}");
        }
    }
}
