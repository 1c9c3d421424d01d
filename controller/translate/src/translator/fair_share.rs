//! How the namespaces at a Gateway share what is too little for all of them.

/// What each may have at most, so that together they have no more than `limit`: `u64::MAX` if what all want
/// fits. Whoever wants no more than an equal part gets it, whatever others want; what is left of these
/// parts is shared by the others in the same way (max-min fairness).
pub(crate) fn share(wanted: impl Iterator<Item = u64>, limit: u64) -> u64 {
    let mut wanted: Vec<u64> = wanted.collect();
    wanted.sort_unstable();
    let mut left = limit;
    for (number, one) in wanted.iter().enumerate() {
        let sharing = (wanted.len() - number) as u64;
        if *one > left / sharing {
            return left / sharing;
        }
        left -= one;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn whoever_wants_little_gets_it_and_the_others_share_the_rest() {
        for (wanted, limit, expected) in [
            (&[][..], 10, u64::MAX),
            (&[10], 10, u64::MAX),
            (&[11], 10, 10),
            (&[3, 7], 10, u64::MAX),
            (&[100, 3], 10, 7),
            (&[100, 100], 10, 5),
            (&[4, 100, 1, 100], 15, 5),
            (&[u64::MAX, 0], 0, 0),
        ] {
            assert_eq!(share(wanted.iter().copied(), limit), expected, "{wanted:?}");
        }
    }
}
