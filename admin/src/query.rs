//! Query parameters: only known ones, each at most once.

use std::borrow::Cow;
use std::str::FromStr;

#[derive(Debug, Default)]
pub(crate) struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Parses a query with the allowed parameters `known`.
    ///
    /// # Errors
    /// A parameter is unknown or repeated.
    pub(crate) fn parse(query: Option<&'a str>, known: &[&str]) -> Result<Self, String> {
        let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                return Err(format!("unknown parameter `{}`", clipped(&name)));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(format!("duplicate parameter `{name}`"));
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    /// The value of a parameter; None where it is absent.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let mut pairs = self.pairs.iter();
        pairs.find(|(it, _)| it == name).map(|(_, value)| &**value)
    }

    /// A parameter as a number; None where it is absent.
    ///
    /// # Errors
    /// It is not a number in the range.
    pub(crate) fn number<T>(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<Option<T>, String>
    where
        T: FromStr + PartialOrd + std::fmt::Display,
    {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(format!(
                "invalid `{name}` value `{}`: expected a number from {} to {}",
                clipped(text),
                range.start(),
                range.end()
            )),
        }
    }

    /// A parameter as one of `choices`; None where it is absent.
    ///
    /// # Errors
    /// It is not one of them.
    pub(crate) fn choice<'c>(
        &self,
        name: &str,
        choices: &[&'c str],
    ) -> Result<Option<&'c str>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let found = choices.iter().find(|choice| **choice == text);
        found.copied().map(Some).ok_or_else(|| {
            format!(
                "invalid `{name}` value `{}`: expected one of {}",
                clipped(text),
                choices.join(", ")
            )
        })
    }
}

/// Prepares untrusted text for an error message: truncated, and control characters replaced.
pub(crate) fn clipped(text: &str) -> String {
    let shown = text
        .chars()
        .take(CLIPPED_CHARS)
        .map(|c| if c.is_control() { '?' } else { c });
    let mut shown: String = shown.collect();
    if text.chars().nth(CLIPPED_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// Characters of an invalid value in an error message.
const CLIPPED_CHARS: usize = 100;

#[cfg(test)]
mod tests {
    use super::{Query, clipped};

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse(Some("a=GET+x%2Fy&b=info,c%3Dd=e"), &["a", "b"]).expect("known");
        assert_eq!(query.text("a"), Some("GET x/y"));
        assert_eq!(query.text("b"), Some("info,c=d=e"));
        assert_eq!(query.text("c"), None);
    }

    #[test]
    fn unknown_and_duplicate_parameters_are_rejected() {
        assert!(Query::parse(Some("a=1&c=2"), &["a", "b"]).is_err());
        assert!(Query::parse(Some("a=1&a=2"), &["a", "b"]).is_err());
        assert!(Query::parse(None, &[]).is_ok());
    }

    #[test]
    fn numbers_and_choices_are_checked() {
        let query =
            Query::parse(Some("n=300&m=301&k=-1&f=text"), &["n", "m", "k", "f"]).expect("known");
        assert_eq!(query.number("n", 1..=300), Ok(Some(300)));
        assert_eq!(query.number::<u32>("x", 1..=300), Ok(None));
        assert!(query.number("m", 1..=300).is_err());
        assert!(query.number::<u32>("k", 1..=300).is_err());
        assert_eq!(query.choice("f", &["json", "text"]), Ok(Some("text")));
        assert!(query.choice("f", &["json"]).is_err());
    }

    #[test]
    fn text_in_error_messages_is_short_and_one_line() {
        assert_eq!(clipped("a\r\nb"), "a??b");
        assert_eq!(clipped(&"a".repeat(1000)).chars().count(), 101);
    }
}
