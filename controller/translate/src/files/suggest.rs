//! "Did you mean": the most similar known name.

/// The known name that `name` is probably a typo of.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NAME {
        return None;
    }
    let bound = (name.len() / 3).clamp(1, 3);
    let distance = known
        .into_iter()
        .map(|other| (distance(name, other), other));
    let (distance, other) = distance.min_by_key(|(distance, _)| *distance)?;
    (distance <= bound).then_some(other)
}

/// ` (did you mean …?)`, or nothing.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |other| format!(" (did you mean `{other}`?)"))
}

/// Number of wrong, missing, extra or swapped letters, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(&a.to_lowercase(), &b.to_lowercase())
}

/// Longer than any field's name.
const MAX_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn edit_distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("Hostnames", "hostnames", 0),
            ("hostname", "hostnames", 1),
            ("tsl", "tls", 1),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_similar_names_are_suggested() {
        let known = ["hostnames", "rules", "parentRefs"];
        assert_eq!(nearest("hostname", known), Some("hostnames"));
        assert_eq!(nearest("rule", known), Some("rules"));
        assert_eq!(nearest("backendRefs", known), None);
        assert_eq!(nearest("x", known), None);
    }
}
