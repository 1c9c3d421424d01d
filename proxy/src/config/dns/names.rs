//! The host names in use, their answers, and when each is looked up again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{info, warn};
use xds::model::{HostAddress, Hostname, Hosts, Model};

use super::{Answer, LookupError, Resolved};
use crate::fair_places::FairPlaces;
use crate::limits::{DNS_LOOKUPS, DNS_RETRY, DNS_RETRY_MAX, DNS_TTL_MAX, DNS_TTL_MIN};

/// The names of a configuration.
#[derive(Debug)]
pub struct Names {
    entries: BTreeMap<Hostname, Name>,
    resolved: Resolved,
    /// The lookups that may be in progress, which namespaces share.
    places: FairPlaces<Arc<str>>,
    /// The namespaces whose places the lookups in progress take. Those of names that the
    /// configuration no longer has are among them.
    in_progress: HashMap<Hostname, Arc<str>>,
}

#[derive(Debug)]
struct Name {
    /// The namespaces of the backends that use it.
    owners: Vec<Arc<str>>,
    /// Longest interval between lookups.
    refresh: Option<Duration>,
    state: State,
    /// Failed lookups since the last answer.
    failures: u32,
    /// Whether a configuration has waited for its first answer.
    was_waited_for: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be looked up at this time.
    Due(Instant),
    InProgress,
}

/// What the backends of a model need of a name.
#[derive(Debug, Default)]
struct Needed<'a> {
    namespaces: BTreeSet<&'a str>,
    refresh: Option<Duration>,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            resolved: Resolved::default(),
            places: FairPlaces::new(DNS_LOOKUPS),
            in_progress: HashMap::new(),
        }
    }
}

impl Names {
    /// Sets the names of a model. New ones are due at once; others are forgotten.
    pub fn set_desired(&mut self, model: &Model, now: Instant) {
        let mut needed: BTreeMap<&Hostname, Needed<'_>> = BTreeMap::new();
        for backend in model.backends.values() {
            for (name, refresh) in named(&backend.hosts) {
                let needed = needed.entry(name).or_default();
                needed.namespaces.insert(backend.key.namespace());
                needed.refresh = [needed.refresh, refresh].into_iter().flatten().min();
            }
        }
        self.entries.retain(|name, _| needed.contains_key(name));
        self.resolved.retain(|name| needed.contains_key(name));
        for (name, needed) in needed {
            let entry = self.entries.entry(name.clone());
            entry.or_insert_with(|| Name::new(now)).set_needed(&needed);
        }
    }

    /// Takes the names that are due for a lookup, as many as there are places for: those last that did not
    /// resolve before, and of the others those first that have been due longest.
    pub fn take_due(&mut self, now: Instant) -> Vec<Hostname> {
        let names = self.entries.iter_mut();
        let due = names.filter_map(|(name, entry)| Some((entry.due()?, name, entry)));
        let mut due: Vec<_> = due.filter(|(at, ..)| *at <= now).collect();
        due.sort_by_key(|(at, _, entry)| (entry.failures > 0, *at));
        let mut taken = Vec::new();
        for (_, name, entry) in due {
            // One lookup that the name had in an earlier configuration may still run.
            if !self.in_progress.contains_key(name)
                && let Some(owner) = self.places.take(&entry.owners)
            {
                self.in_progress.insert(name.clone(), owner);
                entry.state = State::InProgress;
                taken.push(name.clone());
            }
        }
        taken
    }

    /// When the next lookup is due that there is a place for.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        let possible = self.entries.iter().filter(|(name, entry)| {
            !self.in_progress.contains_key(*name) && self.places.eligible(&entry.owners).is_some()
        });
        possible.filter_map(|(_, entry)| entry.due()).min()
    }

    /// Takes the result of a lookup; returns whether the addresses changed. A failure keeps the
    /// previous ones.
    pub fn record(
        &mut self,
        name: &Hostname,
        result: Result<Answer, LookupError>,
        now: Instant,
    ) -> bool {
        if let Some(owner) = self.in_progress.remove(name) {
            self.places.release(&owner);
        }
        // The configuration may no longer use the name.
        let Some(entry) = self.entries.get_mut(name) else {
            return false;
        };
        match result {
            Ok(Answer { addresses, ttl }) => {
                let least = entry.refresh.map_or(ttl, |refresh| refresh.min(ttl));
                entry.state = State::Due(now + least.clamp(DNS_TTL_MIN, DNS_TTL_MAX));
                if std::mem::take(&mut entry.failures) > 0 {
                    info!(%name, "the name resolves again");
                }
                self.resolved.insert(name, addresses)
            }
            Err(error) => {
                if entry.failures == 0 {
                    let kept = self.resolved.addresses(name).len();
                    warn!(%name, %error, kept, "{}", advice(kept));
                }
                let doubled = DNS_RETRY.saturating_mul(2_u32.saturating_pow(entry.failures));
                entry.failures = entry.failures.saturating_add(1);
                entry.state = State::Due(now + doubled.min(DNS_RETRY_MAX));
                false
            }
        }
    }

    /// The answers so far.
    #[must_use]
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Whether every name has had an answer or an error, or was waited for before.
    #[must_use]
    pub fn settled(&self) -> bool {
        let known = |name| !self.resolved.addresses(name).is_empty();
        let mut names = self.entries.iter();
        names.all(|(name, entry)| known(name) || entry.failures > 0 || entry.was_waited_for)
    }

    /// Ends the wait for first answers: a name delays one configuration, and none after it.
    pub fn stop_waiting(&mut self) {
        for entry in self.entries.values_mut() {
            entry.was_waited_for = true;
        }
    }
}

impl Name {
    /// A name that is to be looked up at once.
    fn new(now: Instant) -> Self {
        Self {
            owners: Vec::new(),
            refresh: None,
            state: State::Due(now),
            failures: 0,
            was_waited_for: false,
        }
    }

    fn set_needed(&mut self, needed: &Needed<'_>) {
        self.refresh = needed.refresh;
        let namespaces = needed.namespaces.iter().copied();
        if !namespaces
            .clone()
            .eq(self.owners.iter().map(|owner| &**owner))
        {
            self.owners = namespaces.map(Arc::from).collect();
        }
    }

    fn due(&self) -> Option<Instant> {
        match self.state {
            State::Due(at) => Some(at),
            State::InProgress => None,
        }
    }
}

/// The names of a backend's hosts, with the longest interval between lookups.
fn named(hosts: &Hosts) -> Vec<(&Hostname, Option<Duration>)> {
    match hosts {
        Hosts::Static(hosts) => {
            let names = hosts.iter().filter_map(|host| match &host.address {
                HostAddress::Name(name) => Some((name, None)),
                HostAddress::Ip(_) => None,
            });
            names.collect()
        }
        Hosts::Dns { name, refresh, .. } => vec![(name, *refresh)],
        Hosts::Unix { .. } | Hosts::Pool(_) => Vec::new(),
    }
}

fn advice(kept: usize) -> &'static str {
    if kept > 0 {
        "the name does not resolve; its previous addresses stay in use; retrying"
    } else {
        "the name does not resolve, so requests to its backends get 503; check the name and this machine's \
         DNS (/etc/resolv.conf, /etc/hosts). It is tried again"
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use xds::model::{Backend, BackendKey, BackendProtocol, Hostname, Hosts, Model, ObjectName};

    use super::Names;
    use crate::config::dns::{Answer, LookupError};
    use crate::limits::DNS_LOOKUPS;

    fn name(text: &str) -> Hostname {
        Hostname::parse(text).expect("a name")
    }

    fn model(names: &[(&str, Option<u64>)]) -> Model {
        let mut model = Model::default();
        for (text, refresh) in names {
            add(&mut model, "a", text, *refresh);
        }
        model
    }

    /// Adds a backend of this namespace.
    fn add(model: &mut Model, namespace: &str, text: &str, refresh: Option<u64>) {
        let object = ObjectName::new(namespace, &format!("b{}", model.backends.len()));
        let backend = Backend {
            key: BackendKey::new(&object),
            hosts: Hosts::Dns {
                name: name(text),
                port: std::num::NonZeroU16::MIN,
                refresh: refresh.map(Duration::from_secs),
            },
            protocol: BackendProtocol::Http,
            tls: None,
            proxy_protocol: None,
        };
        model.insert(backend.into());
    }

    fn answer(address: &str, ttl: u64) -> Answer {
        Answer {
            addresses: vec![address.parse().expect("an address")],
            ttl: Duration::from_secs(ttl),
        }
    }

    fn failure() -> LookupError {
        LookupError("no such name".to_owned())
    }

    #[test]
    fn a_name_is_looked_up_again_when_its_ttl_expires() {
        let begin = Instant::now();
        for (ttl, refresh, expected) in [
            (30, None, 30),
            (0, None, 1),
            (86_400, None, 300),
            (30, Some(5), 5),
            (3, Some(60), 3),
        ] {
            let mut names = Names::default();
            names.set_desired(&model(&[("a.test", refresh)]), begin);
            assert_eq!(names.take_due(begin), [name("a.test")]);
            assert_eq!(names.next_due(), None);
            assert!(names.take_due(begin).is_empty(), "it is being looked up");
            assert!(names.record(&name("a.test"), Ok(answer("10.0.0.1", ttl)), begin));
            assert_eq!(
                names.next_due(),
                Some(begin + Duration::from_secs(expected))
            );
        }
    }

    #[test]
    fn a_failed_lookup_keeps_the_last_answer_and_backs_off() {
        let begin = Instant::now();
        let mut names = Names::default();
        names.set_desired(&model(&[("a.test", None)]), begin);
        assert!(!names.settled());
        assert!(names.record(&name("a.test"), Ok(answer("10.0.0.1", 5)), begin));
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert!(!names.record(&name("a.test"), Err(failure()), begin));
            let wait = Duration::from_secs(seconds);
            assert_eq!(names.next_due(), Some(begin + wait));
        }
        assert_eq!(names.resolved().addresses(&name("a.test")).len(), 1);
        assert!(!names.record(&name("a.test"), Ok(answer("10.0.0.1", 5)), begin));
        assert!(!names.record(&name("a.test"), Err(failure()), begin));
        let wait = Duration::from_secs(1);
        assert_eq!(
            names.next_due(),
            Some(begin + wait),
            "an answer ends the row"
        );
        assert!(names.settled());
    }

    #[test]
    fn a_name_is_waited_for_once() {
        let begin = Instant::now();
        let mut names = Names::default();
        names.set_desired(&model(&[("silent.test", None)]), begin);
        assert!(!names.settled());
        names.stop_waiting();
        names.set_desired(&model(&[("silent.test", None)]), begin);
        assert!(names.settled());
        names.set_desired(&model(&[("silent.test", None), ("b.test", None)]), begin);
        assert!(!names.settled(), "the other one is new");
    }

    #[test]
    fn names_no_longer_desired_are_dropped() {
        let begin = Instant::now();
        let mut names = Names::default();
        names.set_desired(
            &model(&[("a.test", Some(9)), ("a.test", Some(7)), ("b.test", None)]),
            begin,
        );
        assert_eq!(names.take_due(begin).len(), 2);
        names.set_desired(&model(&[("b.test", None)]), begin);
        assert!(!names.record(&name("a.test"), Ok(answer("10.0.0.1", 5)), begin));
        assert!(names.resolved().addresses(&name("a.test")).is_empty());
        assert_eq!(names.next_due(), None, "the other one is still looked up");
    }

    #[test]
    fn names_that_hang_leave_places_for_those_of_other_namespaces() {
        let begin = Instant::now();
        let mut wanted = Model::default();
        for number in 0..DNS_LOOKUPS * 2 {
            add(
                &mut wanted,
                "tenant",
                &format!("hanging-{number}.test"),
                None,
            );
        }
        let mut names = Names::default();
        names.set_desired(&wanted, begin);
        let hanging = names.take_due(begin);
        assert_eq!(hanging.len(), DNS_LOOKUPS / 2);
        assert_eq!(
            names.next_due(),
            None,
            "nothing is due that may be looked up"
        );
        let later = begin + Duration::from_secs(1);
        let mut with_good = wanted.clone();
        add(&mut with_good, "other", "good.test", None);
        names.set_desired(&with_good, later);
        assert_eq!(names.take_due(later), [name("good.test")]);
        names.record(&name("good.test"), Ok(answer("10.0.0.1", 60)), later);

        // A name that goes and comes back is looked up by the lookup that is in progress.
        names.set_desired(&Model::default(), later);
        names.set_desired(&wanted, later);
        assert_eq!(names.take_due(later), []);
        names.record(&hanging[0], Err(failure()), later);
        assert_eq!(names.next_due(), Some(later), "there is a place again");
        assert_eq!(names.take_due(later).len(), 1);
    }
}
