//! Finds the listener of a host among those of a bind: an exact name, then the longest wildcard,
//! then the one for every host. Costs O(labels), whatever the number of listeners.

use xds::model::Hostname;

use super::hash::Hash;
use super::host::{Coverage, hash_exact, longest_wildcard, suffixes};
use super::table::{Link, Table};

/// Indices of listeners, by their hosts.
#[derive(Debug)]
pub struct HostIndex {
    table: Table,
    names: Box<[Name]>,
    /// Most labels of any wildcard.
    deepest: usize,
    any: Link,
}

#[derive(Debug)]
struct Name {
    text: Box<[u8]>,
    cover: Cover,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cover {
    Exact,
    Under,
    Any,
}

impl HostIndex {
    /// An index that maps the n-th of `hostnames` to n; `None` is every host. Of two equal ones the
    /// first counts.
    #[must_use]
    pub fn build<'a>(hostnames: impl IntoIterator<Item = Option<&'a Hostname>>) -> Self {
        let (mut names, mut hashes) = (Vec::new(), Vec::new());
        let (mut deepest, mut any) = (0, Link::NONE);
        for hostname in hostnames {
            let coverage = Coverage::of(hostname);
            let cover = match coverage {
                Coverage::Exact(_) => Cover::Exact,
                Coverage::Under(name) => {
                    deepest = deepest.max(suffixes(name.as_bytes()).count());
                    Cover::Under
                }
                Coverage::Any => {
                    any = any.or(Link::to(names.len()));
                    Cover::Any
                }
            };
            hashes.push(coverage.hash());
            names.push(Name {
                text: coverage.name().into(),
                cover,
            });
        }
        Self {
            table: Table::build(&hashes),
            names: names.into_boxed_slice(),
            deepest,
            any,
        }
    }

    /// The index of the most specific one for `host`.
    #[must_use]
    pub fn find(&self, host: &[u8]) -> Option<usize> {
        // Most binds have one listener, for every host.
        if let [only] = &*self.names
            && only.cover == Cover::Any
        {
            return Some(0);
        }
        let under = |hash, name: &[u8]| self.named(hash, Cover::Under, name);
        self.named(hash_exact(host), Cover::Exact, host)
            .or_else(|| longest_wildcard(host, self.deepest, 0, under).map(|(found, _)| found))
            .or(self.any.target())
    }

    fn named(&self, hash: Hash, cover: Cover, text: &[u8]) -> Option<usize> {
        self.table.find(hash, |number| {
            let name = &self.names[number];
            name.cover == cover && *name.text == *text
        })
    }
}

#[cfg(test)]
mod tests {
    use xds::model::Hostname;

    use super::HostIndex;

    const NAMES: [Option<&str>; 6] = [
        Some("a.example.com"),
        Some("*.example.com"),
        Some("*.b.example.com"),
        Some("*.com"),
        None,
        Some("a.example.com"),
    ];

    fn index(names: &[Option<&str>]) -> HostIndex {
        let parse = |name: &str| Hostname::parse(name).expect("a host name");
        let names: Vec<Option<Hostname>> = names.iter().map(|name| name.map(parse)).collect();
        HostIndex::build(names.iter().map(Option::as_ref))
    }

    #[test]
    fn the_most_specific_name_wins() {
        let index = index(&NAMES);
        for (host, expected) in [
            ("a.example.com", 0),
            ("b.example.com", 1),
            ("x.y.example.com", 1),
            ("x.b.example.com", 2),
            ("example.com", 3),
            ("com", 4),
            (".com", 4),
            ("", 4),
            ("10.0.0.1", 4),
        ] {
            assert_eq!(index.find(host.as_bytes()), Some(expected), "{host}");
        }
    }

    #[test]
    fn the_index_agrees_with_a_linear_search() {
        let names: Vec<_> = NAMES[..4].iter().map(|name| name.expect("named")).collect();
        let index = index(&NAMES[..4]);
        for host in [
            "a.example.com",
            "z",
            "q.com",
            "b.example.com",
            "a.b.example.com",
            "b.b.com",
        ] {
            let matching = names
                .iter()
                .enumerate()
                .filter(|(_, name)| Hostname::parse(name).expect("a host name").matches(host));
            let longest = matching.max_by_key(|(_, name)| (!name.starts_with('*'), name.len()));
            assert_eq!(
                index.find(host.as_bytes()),
                longest.map(|(at, _)| at),
                "{host}"
            );
        }
    }

    #[test]
    fn hosts_without_a_listener_are_not_found() {
        assert_eq!(index(&[]).find(b"a"), None);
        assert_eq!(index(&[Some("a.b")]).find(b"c"), None);
    }
}
