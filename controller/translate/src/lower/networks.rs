//! Networks of clients: those of the policy itself, and lists in ConfigMaps.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;

use xds::model::{NetworkList, NetworkPolicy, ObjectName};

use crate::api::{ConfigMap, NetworkListRef, NetworksSpec, Resource as _};
use crate::network;
use crate::problem::Problem;
use crate::reader::Reader;
use crate::reason::Reason;

/// The lists that a policy has read, by reference. One that becomes unusable stays in effect.
pub(crate) type ReadLists = BTreeMap<NetworkListRef, ReadList>;

/// A list as it was read last.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReadList {
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
    pub(crate) lists: ReadLists,
}

/// Lowers the networks of a policy in `namespace`, which read the lists `before`.
pub(crate) fn lower(
    reader: &Reader<'_>,
    namespace: &str,
    spec: &NetworksSpec,
    before: Option<&ReadLists>,
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
        before,
        room: MAX_NETWORKS.saturating_sub(deny.len() + allow.len()),
        read: ReadLists::new(),
        refs: Vec::new(),
        is_missing: false,
    };
    let denied = lists.read(spec.deny_from.as_deref(), "denyFrom");
    let allowed = lists.read(spec.allow_from.as_deref(), "allowFrom");
    let has_allow = spec.allow.is_some() || spec.allow_from.is_some();
    let policy = if lists.is_missing {
        NetworkPolicy::ListMissing
    } else {
        NetworkPolicy::Lists {
            deny: NetworkList::new(deny.into_iter().chain(denied)),
            allow: has_allow.then(|| NetworkList::new(allow.into_iter().chain(allowed))),
        }
    };
    LoweredNetworks {
        policy,
        problems,
        refs: lists.refs,
        lists: lists.read,
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

/// Reads the lists of a policy.
struct Lists<'a> {
    reader: &'a Reader<'a>,
    namespace: &'a str,
    before: Option<&'a ReadLists>,
    /// How many networks the next list may have.
    room: usize,
    read: ReadLists,
    refs: Vec<Problem>,
    is_missing: bool,
}

impl Lists<'_> {
    fn read(&mut self, lists: Option<&[NetworkListRef]>, field: &str) -> Vec<(IpAddr, u8)> {
        let mut networks = Vec::new();
        for (index, reference) in lists.into_iter().flatten().enumerate() {
            let current = self.current(reference);
            let list =
                current.or_else(|why| self.previous(reference, &format!("{field}[{index}]"), &why));
            if let Ok(list) = list {
                self.room = self.room.saturating_sub(list.networks.len());
                networks.extend(list.networks.iter().copied());
                self.read.insert(reference.clone(), list);
            }
        }
        networks
    }

    /// The list as it is now.
    fn current(&self, reference: &NetworkListRef) -> Result<ReadList, String> {
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
        let known = self.before.and_then(|before| before.get(reference));
        let list = match known.filter(|it| it.fingerprint == fingerprint) {
            Some(known) => known.clone(),
            None => ReadList {
                fingerprint,
                networks: parse(bytes).map_err(|why| format!("entry `{key}` of {what}: {why}"))?,
            },
        };
        if list.networks.len() > self.room {
            return Err(format!(
                "entry `{key}` of {what} has {} networks, and there is room for {} beside the others: the \
                 lists of a policy have at most {MAX_NETWORKS} in all; join networks, or use several policies",
                list.networks.len(),
                self.room
            ));
        }
        Ok(list)
    }

    /// The list as it was read before, since it cannot be now.
    fn previous(
        &mut self,
        reference: &NetworkListRef,
        field: &str,
        why: &str,
    ) -> Result<ReadList, ()> {
        let known = self.before.and_then(|before| before.get(reference));
        let known = known.filter(|it| it.networks.len() <= self.room);
        let effect = if let Some(list) = known {
            format!(
                "until then its previous version stays in effect, with {} networks",
                list.networks.len()
            )
        } else {
            self.is_missing = true;
            "until then every request of the target gets status 503 (list_missing)".to_owned()
        };
        let problem = Problem::new(Reason::InvalidListRef, field, format!("{why}; {effect}"));
        self.refs.push(problem);
        known.cloned().ok_or(())
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
