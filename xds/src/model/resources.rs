//! The resources of one kind, by key.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeSet, btree_set};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// A resource, which contains its key.
pub trait Keyed {
    /// The key as text.
    fn key(&self) -> &str;
}

/// The resources of one kind, in the order of their keys. A key is not stored beside its resource:
/// a model has many resources, and there are several models.
pub struct Resources<T>(BTreeSet<ByKey<T>>);

/// A resource, compared by its key.
#[derive(Debug)]
struct ByKey<T>(Arc<T>);

impl<T: Keyed> Resources<T> {
    /// The resource of a key.
    #[must_use]
    pub fn get(&self, key: &(impl Borrow<str> + ?Sized)) -> Option<&Arc<T>> {
        self.0.get(key.borrow()).map(|it| &it.0)
    }

    /// Whether there is a resource of this key.
    #[must_use]
    pub fn contains_key(&self, key: &(impl Borrow<str> + ?Sized)) -> bool {
        self.0.contains(key.borrow())
    }

    /// Adds a resource; returns the one of its key that it replaces.
    pub fn insert(&mut self, resource: Arc<T>) -> Option<Arc<T>> {
        self.0.replace(ByKey(resource)).map(|it| it.0)
    }

    /// Removes the resource of a key, and returns it.
    pub fn remove(&mut self, key: &(impl Borrow<str> + ?Sized)) -> Option<Arc<T>> {
        self.0.take(key.borrow()).map(|it| it.0)
    }

    /// The resources from a key on.
    pub fn starting_at(&self, key: &str) -> impl Iterator<Item = &Arc<T>> {
        let range = (Bound::Included(key), Bound::Unbounded);
        self.0.range::<str, _>(range).map(|it| &it.0)
    }
}

impl<T> Resources<T> {
    /// The resources, in the order of their keys.
    #[must_use]
    pub fn values(&self) -> Values<'_, T> {
        self.iter()
    }

    /// The resources, in the order of their keys.
    #[must_use]
    pub fn iter(&self) -> Values<'_, T> {
        Values(self.0.iter())
    }

    /// Number of resources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Resources in the order of their keys.
#[derive(Debug)]
pub struct Values<'a, T>(btree_set::Iter<'a, ByKey<T>>);

impl<'a, T> Iterator for Values<'a, T> {
    type Item = &'a Arc<T>;

    fn next(&mut self) -> Option<&'a Arc<T>> {
        self.0.next().map(|it| &it.0)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<'a, T> IntoIterator for &'a Resources<T> {
    type Item = &'a Arc<T>;
    type IntoIter = Values<'a, T>;

    fn into_iter(self) -> Values<'a, T> {
        self.iter()
    }
}

impl<T: Keyed> FromIterator<Arc<T>> for Resources<T> {
    fn from_iter<I: IntoIterator<Item = Arc<T>>>(resources: I) -> Self {
        Self(resources.into_iter().map(ByKey).collect())
    }
}

impl<T> Default for Resources<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T> Clone for Resources<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Eq> PartialEq for Resources<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl<T: Eq> Eq for Resources<T> {}

impl<T: fmt::Debug> fmt::Debug for Resources<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<T> Clone for ByKey<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Keyed> Borrow<str> for ByKey<T> {
    fn borrow(&self) -> &str {
        self.0.key()
    }
}

impl<T: Keyed> Ord for ByKey<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}

impl<T: Keyed> PartialOrd for ByKey<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Keyed> PartialEq for ByKey<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl<T: Keyed> Eq for ByKey<T> {}
