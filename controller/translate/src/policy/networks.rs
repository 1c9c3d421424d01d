//! Networks of clients: those of the policy itself, and lists in ConfigMaps.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;

use xds::model::{NetworkList, NetworkPolicy, ObjectName};

use super::api::{NetworkListRef, NetworksSpec};
use crate::network;
use crate::objects::api::{ConfigMap, Resource as _};
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// What a policy has read, which stays in effect where it becomes unusable.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ReadNetworks {
    lists: ReadLists,
    /// The networks of its last version all of whose lists could be read.
    complete: Option<NetworkPolicy>,
}

/// Lists by reference.
type ReadLists = BTreeMap<NetworkListRef, ReadList>;

/// A list as it was read last.
#[derive(Debug, Clone, PartialEq)]
struct ReadList {
    /// The hash of its text, which is not parsed again unless it changes.
    fingerprint: u64,
    networks: Arc<[(IpAddr, u8)]>,
}

/// The lowered networks of a policy.
pub(crate) struct LoweredNetworks {
    pub(crate) policy: NetworkPolicy,
    pub(crate) problems: Vec<Problem>,
    /// Lists that cannot be read.
    pub(crate) refs: Vec<Problem>,
    pub(crate) read: ReadNetworks,
}

/// Lowers the networks of a policy in `namespace`, which has read `before`.
pub(crate) fn lower(
    reader: &Reader<'_>,
    namespace: &str,
    spec: &NetworksSpec,
    before: Option<&ReadNetworks>,
) -> LoweredNetworks {
    let mut problems = Vec::new();
    let deny = written(spec.deny.as_deref(), "deny", &mut problems);
    let allow = written(spec.allow.as_deref(), "allow", &mut problems);
    if [spec.deny.is_some(), spec.allow.is_some()] == [false; 2] && spec.lists().next().is_none() {
        let message = "has no network: add one to deny, allow, denyFrom or allowFrom";
        problems.push(Problem::new(Reason::Invalid, "", message));
    }
    let mut lists = Lists {
        reader,
        namespace,
        room: MAX_NETWORKS.saturating_sub(deny.len() + allow.len()),
        read: ReadLists::new(),
        refs: Vec::new(),
        is_missing: false,
        has_previous: before.is_some_and(|before| before.complete.is_some()),
    };
    let mut found = Vec::new();
    for (field, references) in [
        ("denyFrom", &spec.deny_from),
        ("allowFrom", &spec.allow_from),
    ] {
        for (index, reference) in references.iter().flatten().enumerate() {
            let known = before.and_then(|before| before.lists.get(reference));
            found.push(Found {
                field: (field, index),
                reference,
                known,
                current: lists.current(reference, known),
            });
        }
    }
    let read = lists.fit(found);
    let [denied, allowed] = ["denyFrom", "allowFrom"].map(|field| {
        let of_field = read.iter().filter(move |(of, _)| *of == field);
        of_field.flat_map(|(_, networks)| networks.iter().copied())
    });
    let has_allow = spec.allow.is_some() || spec.allow_from.is_some();
    let complete = if lists.is_missing {
        before.and_then(|before| before.complete.clone())
    } else {
        Some(NetworkPolicy::Lists {
            deny: NetworkList::new(deny.into_iter().chain(denied)),
            allow: has_allow.then(|| NetworkList::new(allow.into_iter().chain(allowed))),
        })
    };
    LoweredNetworks {
        policy: complete.clone().unwrap_or(NetworkPolicy::ListMissing),
        problems,
        refs: lists.refs,
        read: ReadNetworks {
            lists: lists.read,
            complete,
        },
    }
}

/// Networks that are written in the policy.
fn written(
    texts: Option<&[String]>,
    field: &str,
    problems: &mut Vec<Problem>,
) -> Vec<(IpAddr, u8)> {
    let texts = texts.into_iter().flatten().enumerate();
    let parsed = texts.filter_map(|(index, text)| match network::parse(text) {
        Ok(network) => Some(network),
        Err(why) => {
            problems.push(Problem::new(
                Reason::Invalid,
                format!("{field}[{index}]"),
                why,
            ));
            None
        }
    });
    parsed.collect()
}

/// The networks of a list, with the name of the field that refers to it.
type OfField = (&'static str, Arc<[(IpAddr, u8)]>);

/// Reads the lists of a policy.
struct Lists<'a> {
    reader: &'a Reader<'a>,
    namespace: &'a str,
    /// How many networks the next list may have.
    room: usize,
    read: ReadLists,
    refs: Vec<Problem>,
    is_missing: bool,
    /// Whether an earlier version of the policy was complete.
    has_previous: bool,
}

/// A list that a policy refers to.
struct Found<'a> {
    /// The name of the field, and the number in it.
    field: (&'static str, usize),
    reference: &'a NetworkListRef,
    /// As it was read before.
    known: Option<&'a ReadList>,
    /// As it is now, or why it cannot be read.
    current: Result<ReadList, String>,
}

impl Found<'_> {
    /// What takes effect if there is room for it.
    fn list(&self) -> Option<&ReadList> {
        self.current.as_ref().ok().or(self.known)
    }

    fn len(&self) -> usize {
        self.list().map_or(0, |list| list.networks.len())
    }

    /// Whether it is as it was before.
    fn is_unchanged(&self) -> bool {
        let fingerprint = |list: &ReadList| list.fingerprint;
        self.list().map(fingerprint) == self.known.map(fingerprint)
    }

    /// How many networks more it has than before; 0 for a list that was not read before.
    fn growth(&self) -> usize {
        self.known
            .map_or(0, |known| self.len().saturating_sub(known.networks.len()))
    }
}

impl Lists<'_> {
    /// The list as it is now.
    fn current(
        &self,
        reference: &NetworkListRef,
        known: Option<&ReadList>,
    ) -> Result<ReadList, String> {
        let NetworkListRef { name, key } = reference;
        let object = ObjectName::new(self.namespace, name);
        let what = format!("{} {object}", ConfigMap::KIND);
        let Some(map) = self.reader.object::<ConfigMap>(&object) else {
            return Err(format!("{what} does not exist: create it"));
        };
        let Some(bytes) = map.entry(key) else {
            return Err(format!(
                "{what} has no entry `{key}`: put the networks there"
            ));
        };
        let fingerprint = fingerprint(bytes);
        Ok(match known.filter(|it| it.fingerprint == fingerprint) {
            Some(known) => known.clone(),
            None => ReadList {
                fingerprint,
                networks: parse(bytes).map_err(|why| format!("entry `{key}` of {what}: {why}"))?,
            },
        })
    }

    /// The networks of the lists that there is room for. If there is none for all, those that have grown most stay as
    /// they were: a list that grows closes nothing through another, and keeps no other from changing.
    fn fit(&mut self, mut found: Vec<Found<'_>>) -> Vec<OfField> {
        let all: usize = found.iter().map(Found::len).sum();
        let mut wanted = all;
        while wanted > self.room {
            let grown = found.iter_mut().filter(|it| it.growth() > 0);
            let Some(most) = grown.max_by_key(|it| it.growth()) else {
                break;
            };
            wanted -= most.growth();
            most.current = Err(self.no_room(most.reference, most.len(), all));
        }
        let (unchanged, new): (Vec<_>, Vec<_>) = found.into_iter().partition(Found::is_unchanged);
        let mut read = Vec::new();
        for list in unchanged.into_iter().chain(new) {
            read.extend(self.take(&list, all));
        }
        read
    }

    /// Takes a list if there is room for it, and reports why it is not as it is now.
    fn take(&mut self, found: &Found<'_>, all: usize) -> Option<OfField> {
        let (field, index) = found.field;
        let list = found.list().filter(|it| it.networks.len() <= self.room);
        let why = match (&found.current, list) {
            (Err(why), _) => Some(why.clone()),
            (Ok(_), Some(_)) => None,
            (Ok(_), None) => Some(self.no_room(found.reference, found.len(), all)),
        };
        if let Some(why) = why {
            let effect = match list {
                Some(list) => format!(
                    "until then its previous version stays in effect, with {} networks",
                    list.networks.len()
                ),
                None if self.has_previous => {
                    "until then all networks of the policy stay as they were before".to_owned()
                }
                None => "until then every request of the target gets status 503 (list_missing)"
                    .to_owned(),
            };
            let field = format!("{field}[{index}]");
            let problem = Problem::new(Reason::InvalidListRef, field, format!("{why}; {effect}"));
            self.refs.push(problem);
        }
        let Some(list) = list else {
            self.is_missing = true;
            return None;
        };
        self.room -= list.networks.len();
        self.read.insert(found.reference.clone(), list.clone());
        Some((field, Arc::clone(&list.networks)))
    }

    fn no_room(&self, reference: &NetworkListRef, len: usize, all: usize) -> String {
        let NetworkListRef { name, key } = reference;
        let object = ObjectName::new(self.namespace, name);
        let others = all - len;
        format!(
            "entry `{key}` of {} {object} has {len} networks, and the other lists have {others}: the networks of \
             a policy are at most {MAX_NETWORKS} in all; join networks, or use several policies",
            ConfigMap::KIND
        )
    }
}

fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The networks of a list: one on each line, or an address. `#` begins a comment.
fn parse(bytes: &[u8]) -> Result<Arc<[(IpAddr, u8)]>, String> {
    let text = str::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())?;
    let lines = text.lines().enumerate();
    let lines =
        lines.map(|(index, line)| (index + 1, line.split('#').next().unwrap_or_default().trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty());
    let networks = lines.map(|(number, line)| {
        network::parse_or_address(line).map_err(|why| format!("line {number}: {why}"))
    });
    networks.collect()
}

/// Most networks of a policy: 64 Ki, some five times those that large providers publish.
const MAX_NETWORKS: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::parse;

    fn texts(list: &str) -> Result<Vec<String>, String> {
        let text = |(address, length): &(_, _)| format!("{address}/{length}");
        parse(list.as_bytes()).map(|networks| networks.iter().map(text).collect())
    }

    #[test]
    fn a_list_has_comments_blank_lines_addresses_and_any_line_ends() {
        let list = "# offices\r\n10.0.0.0/8 # one\r\n\r\n  192.0.2.7\t\n#\n2001:db8::/32#two\n::1";
        let networks = ["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32", "::1/128"];
        assert_eq!(texts(list).as_deref(), Ok(&networks.map(str::to_owned)[..]));
        assert_eq!(texts("# nothing\n"), Ok(Vec::new()));
        assert_eq!(texts(""), Ok(Vec::new()));
    }

    #[test]
    fn a_bad_line_refuses_the_list_by_number() {
        for (list, number) in [
            (
                "10.0.0.0/8\n# a comment\n10.0.0.1/8\n",
                "line 3: `10.0.0.1/8` has bits",
            ),
            ("office\n", "line 1: `office` is not a network"),
            ("10.0.0.0/8, 10.1.0.0/16", "line 1"),
            ("10.0.0.0/8\r\n\r\n10.0.0.0/99\r\n", "line 3"),
        ] {
            let why = texts(list).expect_err(list);
            assert!(why.starts_with(number), "{list}: {why}");
        }
        assert!(parse(b"\xff\n").is_err());
    }
}
