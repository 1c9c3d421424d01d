//! Parameters of a request: each known, each at most once.

use std::borrow::Cow;
use std::str::FromStr;

/// The parameters of a query.
#[derive(Debug, Default)]
pub(crate) struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Reads a query that may have the parameters `known`.
    ///
    /// # Errors
    /// A parameter is not known, or is there twice.
    pub(crate) fn parse(query: Option<&'a str>, known: &[&str]) -> Result<Self, String> {
        let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                return Err(format!("unknown parameter `{}`", clipped(&name)));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(format!("the parameter `{name}` is given twice"));
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    /// The text of a parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let mut pairs = self.pairs.iter();
        pairs.find(|(it, _)| it == name).map(|(_, value)| &**value)
    }

    /// The number of a parameter, within a range.
    ///
    /// # Errors
    /// It is no number, or out of the range.
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
                "`{}` is not a number from {} to {} for `{name}`",
                clipped(text),
                range.start(),
                range.end()
            )),
        }
    }

    /// The one of `choices` that a parameter names.
    ///
    /// # Errors
    /// It is none of them.
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
                "`{}` is none of {} for `{name}`",
                clipped(text),
                choices.join(", ")
            )
        })
    }
}

/// What of a text is repeated to whoever sent it: one line, and not all of a long one.
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

/// Characters of a bad value that are shown.
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
    fn what_is_unknown_or_repeated_is_refused() {
        assert!(Query::parse(Some("a=1&c=2"), &["a", "b"]).is_err());
        assert!(Query::parse(Some("a=1&a=2"), &["a", "b"]).is_err());
        assert!(Query::parse(None, &[]).is_ok());
    }

    #[test]
    fn numbers_and_choices_have_bounds() {
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
    fn what_is_repeated_to_the_sender_is_short_and_one_line() {
        assert_eq!(clipped("a\r\nb"), "a??b");
        assert_eq!(clipped(&"a".repeat(1000)).chars().count(), 101);
    }
}
