//! How the namespaces at a Gateway share what is too little for all of them.

use std::collections::BTreeMap;

use super::{Budget, Limits};

/// What an object takes of some budgets, in their order.
pub(crate) type Amounts<const N: usize> = [u64; N];

/// An object that takes something of budgets.
#[derive(Debug)]
pub(crate) struct Claimant<'a, R, const N: usize> {
    /// The smaller one comes first.
    pub(crate) rank: &'a R,
    pub(crate) namespace: &'a str,
    pub(crate) wants: Amounts<N>,
}

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

/// Those that do not fit, of objects by rank, each with the budget that it exceeds. First each namespace gets
/// its share, then whatever is left goes to those that fit into it; among equals the older one comes first.
pub(crate) fn left_out<'a, R: Ord, const N: usize>(
    claimants: &[Claimant<'a, R, N>],
    budgets: [Budget; N],
    limits: &Limits,
) -> BTreeMap<&'a R, Budget> {
    left_out_of(claimants, budgets, budgets.map(|budget| limits.of(budget)))
}

/// The same for a part of each budget.
pub(crate) fn left_out_of<'a, R: Ord, const N: usize>(
    claimants: &[Claimant<'a, R, N>],
    budgets: [Budget; N],
    limits: Amounts<N>,
) -> BTreeMap<&'a R, Budget> {
    let mut wanted: BTreeMap<&str, Amounts<N>> = BTreeMap::new();
    for claimant in claimants {
        let own = wanted.entry(claimant.namespace).or_insert([0; N]);
        *own = sum(*own, claimant.wants);
    }
    let total = wanted.values().fold([0; N], |total, own| sum(total, *own));
    if exceeded(total, limits).is_none() {
        return BTreeMap::new();
    }
    let shares: Amounts<N> = std::array::from_fn(|number| {
        let wanted = wanted.values().filter_map(|own| own.get(number).copied());
        let limit = limits.get(number).copied().unwrap_or_default();
        share(wanted, limit).min(limit)
    });
    let mut used: BTreeMap<&str, Amounts<N>> = BTreeMap::new();
    let mut taken = [0; N];
    let mut waiting = Vec::new();
    for claimant in claimants {
        let own = used.entry(claimant.namespace).or_insert([0; N]);
        let with_it = sum(*own, claimant.wants);
        if exceeded(with_it, shares).is_none() {
            *own = with_it;
            taken = sum(taken, claimant.wants);
        } else {
            waiting.push(claimant);
        }
    }
    let mut left_out = BTreeMap::new();
    for claimant in waiting {
        let with_it = sum(taken, claimant.wants);
        match exceeded(with_it, limits).and_then(|number| budgets.get(number)) {
            Some(budget) => drop(left_out.insert(claimant.rank, *budget)),
            None => taken = with_it,
        }
    }
    left_out
}

/// The number of the first limit that is exceeded.
pub(crate) fn exceeded<const N: usize>(used: Amounts<N>, limits: Amounts<N>) -> Option<usize> {
    let mut each = used.into_iter().zip(limits);
    each.position(|(used, limit)| used > limit)
}

/// Both together.
pub(crate) fn sum<const N: usize>(one: Amounts<N>, other: Amounts<N>) -> Amounts<N> {
    let mut sum = one;
    for (to, from) in sum.iter_mut().zip(other) {
        *to = to.saturating_add(from);
    }
    sum
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
