//! A limited number of places that several owners share, so that none of them can take what the
//! others need.

use std::collections::HashMap;
use std::hash::Hash;

/// Places, and who has taken them. An owner may take one while it has fewer than are free: one alone
/// gets half of them, several that want many get equal parts in the long run. Each one that comes
/// takes half of what the others left, so that all are taken after some owners, until one is returned.
#[derive(Debug)]
pub(crate) struct FairPlaces<K> {
    free: usize,
    taken: HashMap<K, usize>,
}

impl<K: Clone + Eq + Hash> FairPlaces<K> {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            free: places,
            taken: HashMap::new(),
        }
    }

    /// Takes a place for one of these owners, the one that has fewest, and returns it; `None` if
    /// none of them may take one.
    pub(crate) fn take<'a>(&mut self, owners: impl IntoIterator<Item = &'a K>) -> Option<K>
    where
        K: 'a,
    {
        let owner = self.eligible(owners)?.clone();
        self.free -= 1;
        *self.taken.entry(owner.clone()).or_default() += 1;
        Some(owner)
    }

    /// Which of these owners may take a place: the one that has fewest.
    pub(crate) fn eligible<'a>(&self, owners: impl IntoIterator<Item = &'a K>) -> Option<&'a K>
    where
        K: 'a,
    {
        let owner = owners.into_iter().min_by_key(|owner| self.taken(owner))?;
        (self.taken(owner) < self.free).then_some(owner)
    }

    /// How many places this owner could take now.
    pub(crate) fn further(&self, owner: &K) -> usize {
        self.free.saturating_sub(self.taken(owner)).div_ceil(2)
    }

    /// Returns a place that an owner took.
    pub(crate) fn release(&mut self, owner: &K) {
        let Some(taken) = self.taken.get_mut(owner) else {
            debug_assert!(false, "only what was taken is returned");
            return;
        };
        *taken -= 1;
        if *taken == 0 {
            self.taken.remove(owner);
        }
        self.free += 1;
    }

    fn taken(&self, owner: &K) -> usize {
        self.taken.get(owner).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::FairPlaces;

    /// How many places an owner gets that takes all it can.
    fn take_all(places: &mut FairPlaces<char>, owner: char) -> usize {
        std::iter::from_fn(|| places.take(&[owner])).count()
    }

    #[test]
    fn an_owner_alone_gets_half_and_one_without_any_finds_a_place() {
        let mut places = FairPlaces::new(8);
        assert_eq!(take_all(&mut places, 'a'), 4);
        assert_eq!(take_all(&mut places, 'b'), 2);
        assert_eq!(take_all(&mut places, 'c'), 1);
        assert_eq!(take_all(&mut places, 'd'), 1);
        assert_eq!(places.take(&['e']), None, "all are taken");
        places.release(&'a');
        assert_eq!(places.take(&['a']), None, "it has enough");
        assert_eq!(places.take(&['e']), Some('e'));
    }

    #[test]
    fn an_owner_can_take_as_many_as_it_is_told() {
        for (free, before) in [(8, 0), (7, 0), (8, 3), (1, 0), (0, 0)] {
            let mut places = FairPlaces::new(free);
            for _ in 0..before {
                let _ = places.take(&['a']);
            }
            let further = places.further(&'a');
            assert_eq!(take_all(&mut places, 'a'), further, "{free} {before}");
        }
    }

    #[test]
    fn owners_that_want_many_get_equal_parts_in_the_long_run() {
        let mut places = FairPlaces::new(40);
        let (mut taken, mut turn) = ([0_usize; 3], 0_usize);
        for _ in 0..1000 {
            // All want more; one place after another is returned, in turn.
            for owner in 0..3 {
                taken[owner] += take_all(&mut places, ['a', 'b', 'c'][owner]);
            }
            turn = (turn + 1) % 3;
            if taken[turn] > 0 {
                places.release(&['a', 'b', 'c'][turn]);
                taken[turn] -= 1;
            }
        }
        assert!(
            taken.iter().all(|&one| (9..=11).contains(&one)),
            "{taken:?}"
        );
    }

    #[test]
    fn what_several_share_counts_for_the_one_with_fewest() {
        let mut places = FairPlaces::new(8);
        assert_eq!(take_all(&mut places, 'a'), 4);
        assert_eq!(places.eligible(&['a']), None);
        assert_eq!(places.take(&['a', 'b']), Some('b'));
        assert_eq!(places.take(&[]), None);
    }
}
