//! Masking of parameters by names that are configured, not known.

use std::borrow::Cow;

use super::MASK;

/// A text in which the values of parameters with these names are masked: of a query or a fragment, or of
/// a URL anywhere in the text. It is up to the caller to mask secrets with well-known names.
#[must_use]
pub fn parameters<'a>(text: &'a str, is_secret: &dyn Fn(&str) -> bool) -> Cow<'a, str> {
    let Some(start) = text.find(['?', '#', ';']) else {
        return Cow::Borrowed(text);
    };
    let (before, rest) = text.split_at(start);
    let secret_name = |part: &str| {
        let (name, _) = part.split_once('=')?;
        is_secret(name).then_some(name.len())
    };
    if !rest
        .split(SEPARATORS)
        .any(|part| secret_name(part).is_some())
    {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    shown.push_str(before);
    for part in rest.split_inclusive(SEPARATORS) {
        let bare = part.trim_end_matches(SEPARATORS);
        match secret_name(bare) {
            Some(length) => shown.extend([&bare[..length], "=", MASK]),
            None => shown.push_str(bare),
        }
        shown.push_str(&part[bare.len()..]);
    }
    Cow::Owned(shown)
}

/// What ends a parameter, or begins one.
const SEPARATORS: [char; 4] = ['?', '&', '#', ';'];

#[cfg(test)]
mod tests {
    use super::parameters;

    #[test]
    fn parameters_with_configured_names_are_masked() {
        let is_secret = |name: &str| name == "who";
        for (text, shown) in [
            ("/a", "/a"),
            ("/who=x", "/who=x"),
            ("/a?who", "/a?who"),
            ("/a?b=c&whom=d", "/a?b=c&whom=d"),
            ("/a?who=x", "/a?who=***"),
            ("/a?b=c&who=x=y&d=e", "/a?b=c&who=***&d=e"),
            ("/a?who=&b=c", "/a?who=***&b=c"),
            ("/a;who=x/b?c=d#who=x", "/a;who=***?c=d#who=***"),
            ("https://a.test/b?who=x", "https://a.test/b?who=***"),
            ("0; url=/a?who=x", "0; url=/a?who=***"),
        ] {
            assert_eq!(parameters(text, &is_secret), shown);
        }
    }
}
