//! Follows the Secrets with session keys, and as the leader makes, replaces and removes keys.

mod unused;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use prometheus_client::metrics::gauge::Gauge;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tracing::{info, warn};
use translate::session_keys;
use translate::status::Reason;
use xds::delta::Encoded;
use xds::model::{ObjectName, SessionKey};

use super::SessionKeyProblem;
use super::given::GivenKeys;
use super::secret;
use super::stored::{Inputs, InvalidKeys, KeySource, Step, StoredKeys};
use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::outputs::Outputs;

/// Keeps the session keys of all Gateways.
pub struct SessionKeyKeeper {
    secrets: Api<Secret>,
    namespace: String,
    outputs: Arc<Outputs>,
    given: GivenKeys,
    known: BTreeMap<ObjectName, KnownKeys>,
    /// The Secrets of a list that is being read.
    listed: BTreeSet<ObjectName>,
    /// Why the Secrets cannot be read.
    unreadable: Option<String>,
    /// Gateways whose Secret could not be written: when to try again, and why. Without a reason, another wrote it, of
    /// which the watch will tell.
    failed: BTreeMap<ObjectName, (Instant, Option<SessionKeyProblem>)>,
    problems: Gauge,
}

/// The keys of a Gateway. Without `Debug`, which would show them.
struct KnownKeys {
    secret: Secret,
    keys: Result<StoredKeys, InvalidKeys>,
    /// Since when every connected proxy has applied them, as seen by this leader.
    applied_since: Option<Instant>,
    /// Since when there is no such Gateway, as seen by this replica.
    unused_since: Option<Instant>,
}

impl SessionKeyKeeper {
    /// `client` must not retry requests: they are tried again here.
    #[must_use]
    pub fn new(client: Client, namespace: &str, outputs: Arc<Outputs>, metrics: &Metrics) -> Self {
        let problems = Gauge::default();
        metrics.register(|registry| {
            let help = "Gateways with a problem of their session keys";
            registry.register("session_key_problems", help, problems.clone());
        });
        Self {
            secrets: Api::namespaced(client.clone(), namespace),
            namespace: namespace.to_owned(),
            given: GivenKeys::new(client, Arc::clone(&outputs)),
            outputs,
            known: BTreeMap::new(),
            listed: BTreeSet::new(),
            unreadable: None,
            failed: BTreeMap::new(),
            problems,
        }
    }

    /// Follows the Secrets, and writes them while this replica is the leader. Never ends.
    pub async fn run(mut self, leadership: Leadership) {
        let settings = watcher::Config::default()
            .labels(&format!("{}=true", secret::LABEL))
            .timeout(WATCH_SECONDS);
        let events = watcher::watcher(self.secrets.clone(), settings).default_backoff();
        let mut events = pin!(events);
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(event) = events.next() => self.take(event),
                _ = ticks.tick() => {
                    self.step(&leadership, Instant::now(), Timestamp::now()).await;
                }
            }
        }
    }

    fn take(&mut self, event: watcher::Result<Event<Secret>>) {
        // `Init` comes before the list is asked for, and `InitApply` before it is complete.
        if let Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) = event {
            self.unreadable = None;
        }
        match event {
            Ok(Event::Apply(secret)) => drop(self.put(secret)),
            Ok(Event::Init) => self.listed.clear(),
            Ok(Event::InitApply(secret)) => {
                let gateway = self.put(secret);
                self.listed.extend(gateway);
            }
            Ok(Event::InitDone) => {
                let listed = std::mem::take(&mut self.listed);
                self.known.retain(|gateway, _| listed.contains(gateway));
                self.outputs.session_keys_known.send_replace(true);
            }
            Ok(Event::Delete(secret)) => {
                if let Some(gateway) = secret::gateway(&secret) {
                    info!(%gateway, "the Secret with the session keys was deleted");
                    self.known.remove(&gateway);
                }
            }
            Err(error) => {
                // Forbidden, or another answer that stays: proxies get their configuration nevertheless.
                if is_refused_list(&error) {
                    self.unreadable = Some(error.to_string());
                    self.outputs.session_keys_known.send_replace(true);
                }
                warn!(%error, "cannot read the Secrets with session keys");
            }
        }
    }

    /// Takes a Secret, and publishes its keys. Returns its Gateway.
    fn put(&mut self, secret: Secret) -> Option<ObjectName> {
        let gateway = secret::gateway(&secret)?;
        let keys = secret::keys(&secret);
        let for_proxies = keys.as_ref().ok().and_then(StoredKeys::for_proxies);
        if for_proxies.is_some() {
            self.outputs.session_keys.set(&gateway, for_proxies);
        }
        let before = self.known.remove(&gateway);
        let is_same = before.as_ref().is_some_and(|before| before.keys == keys);
        let known = KnownKeys {
            applied_since: before
                .as_ref()
                .filter(|_| is_same)
                .and_then(|it| it.applied_since),
            unused_since: before.and_then(|it| it.unused_since),
            secret,
            keys,
        };
        self.known.insert(gateway.clone(), known);
        self.failed.remove(&gateway);
        Some(gateway)
    }

    /// Compares the keys of all Gateways with what they should be, and as the leader corrects them. Ends after a
    /// request without a response, so that changes of Secrets do not wait; the next step goes on.
    async fn step(&mut self, leadership: &Leadership, now: Instant, time: Timestamp) {
        let began = Instant::now();
        let (is_read, is_published) = (
            *self.outputs.session_keys_known.borrow(),
            *self.outputs.gateways_known.borrow(),
        );
        if !is_read || !is_published {
            return;
        }
        if !leadership.is_leader() {
            // The next leadership counts from its own beginning: only then is it known that nothing changed since.
            for known in self.known.values_mut() {
                known.applied_since = None;
            }
        }
        let gateways: BTreeSet<ObjectName> =
            self.outputs.infrastructure.keys().into_iter().collect();
        for gateway in &gateways {
            let problem = self.of_gateway(gateway, leadership, now, time).await;
            self.outputs.session_key_problems.set(gateway, problem);
            if is_long(began) {
                break;
            }
        }
        for gateway in self.outputs.session_key_problems.keys() {
            if !gateways.contains(&gateway) {
                self.outputs.session_key_problems.set(&gateway, None);
            }
        }
        let problems = self.outputs.session_key_problems.keys().len();
        self.problems
            .set(i64::try_from(problems).unwrap_or(i64::MAX));
        self.failed.retain(|gateway, _| gateways.contains(gateway));
        self.given.forget_unused(now);
        // Proxies serve a Gateway while it exists, also without its class, or beyond a budget.
        let existing = self.outputs.gateways.keys();
        let existing = existing.into_iter().chain(gateways).collect();
        let unused = self.unused(&existing, now);
        self.remove(unused, leadership, (began, now)).await;
    }

    /// Does what is due for a Gateway. Returns what is wrong with its keys.
    async fn of_gateway(
        &mut self,
        gateway: &ObjectName,
        leadership: &Leadership,
        now: Instant,
        time: Timestamp,
    ) -> Option<SessionKeyProblem> {
        if let Some(why) = &self.unreadable {
            return Some(unavailable(&format!(
                "the controller cannot read Secrets of its namespace {}: {why}; {WITHOUT_KEYS}",
                self.namespace
            )));
        }
        if let Some((until, problem)) = self.failed.get(gateway)
            && now < *until
        {
            return problem.clone();
        }
        let (source, of_source) = if leadership.is_leader() {
            self.given.source(gateway, now).await
        } else {
            (KeySource::Unknown, None)
        };
        let of_source = of_source.map(|why| invalid(&format!("{why}; {UNCHANGED}")));
        let write = match self.known.get_mut(gateway) {
            None => first(gateway, &source, time).map(|secret| (secret, Write::Create)),
            Some(known) => match &known.keys {
                Err(why) => return Some(damaged(&known.secret, why)),
                Ok(keys) if !leadership.is_leader() => return pending(keys, time),
                Ok(_) => {
                    let next = known.next(gateway, &source, (now, time), &self.outputs);
                    next.map(|(secret, step)| (secret, Write::Replace(step)))
                }
            },
        };
        if let Some((secret, write)) = write
            && leadership.is_leader()
            && let Err(problem) = self.write(gateway, secret, write).await
        {
            return problem;
        }
        let known = self.known.get(gateway);
        let keys = known.and_then(|it| it.keys.as_ref().ok());
        keys.and_then(|keys| pending(keys, time)).or(of_source)
    }

    /// Creates or replaces a Secret. What another wrote meanwhile arrives by the watch.
    async fn write(
        &mut self,
        gateway: &ObjectName,
        secret: Secret,
        write: Write,
    ) -> Result<(), Option<SessionKeyProblem>> {
        let (params, name) = (PostParams::default(), secret::name(gateway));
        let request = async {
            match write {
                Write::Create => self.secrets.create(&params, &secret).await,
                Write::Replace(_) => self.secrets.replace(&name, &params, &secret).await,
            }
        };
        let why = match timeout(DEADLINE, request).await {
            Ok(Ok(written)) => {
                info!(%gateway, secret = name, step = %write, "wrote the session keys");
                self.put(written);
                return Ok(());
            }
            Ok(Err(kube::Error::Api(status)))
                if matches!(status.code, 404 | 409) && !self.failed.contains_key(gateway) =>
            {
                let retry = Instant::now() + RETRY;
                self.failed.insert(gateway.clone(), (retry, None));
                return Err(None);
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => format!(
                "it exists and is not read, perhaps since its label {} is missing: delete it",
                secret::LABEL
            ),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not respond".to_owned(),
        };
        let effect = if self.known.contains_key(gateway) {
            UNCHANGED
        } else {
            WITHOUT_KEYS
        };
        let namespace = &self.namespace;
        let problem = unavailable(&format!(
            "the controller cannot write Secret {name} of its namespace {namespace}: {why}; {effect}"
        ));
        warn!(%gateway, "{}", problem.message);
        let failure = (Instant::now() + RETRY, Some(problem));
        self.failed.insert(gateway.clone(), failure.clone());
        Err(failure.1)
    }
}

impl KnownKeys {
    /// The Secret after the next step, if one is due.
    fn next(
        &mut self,
        gateway: &ObjectName,
        source: &KeySource,
        (now, time): (Instant, Timestamp),
        outputs: &Outputs,
    ) -> Option<(Secret, Step)> {
        let keys = self.keys.as_ref().ok()?;
        let is_applied_now = keys.waits_since().is_some() && is_applied(gateway, keys, outputs);
        self.applied_since = is_applied_now.then(|| self.applied_since.unwrap_or(now));
        let applied_since = self.applied_since;
        let token_lifetime = if keys.has_replaced(LEAST_RETENTION, time) {
            let lifetime = outputs.published.views().token_lifetime(gateway);
            lifetime.max(LEAST_RETENTION)
        } else {
            // Without the views, which are locked while they are read, as for each publication.
            LEAST_RETENTION
        };
        let inputs = Inputs {
            source,
            is_asked_for: secret::is_asked_for_another(&self.secret),
            is_applied: applied_since.is_some_and(|since| now.duration_since(since) >= SETTLE),
            token_lifetime,
            now: time,
        };
        let (next, step) = keys.next(&inputs, random)?;
        let secret = secret::with_keys(self.secret.clone(), &next);
        Some(match step {
            Step::Announced => (secret::without_wish(secret), step),
            Step::Switched | Step::Forgotten => (secret, step),
        })
    }
}

/// How a Secret is written.
#[derive(Debug, Clone, Copy)]
enum Write {
    Create,
    Replace(Step),
}

impl std::fmt::Display for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Create => "the first key signs",
            Self::Replace(Step::Announced) => "a new key is accepted",
            Self::Replace(Step::Switched) => "the new key signs",
            Self::Replace(Step::Forgotten) => "a replaced key is forgotten",
        })
    }
}

/// Whether a step has waited for a request without a response, or for as long.
fn is_long(began: Instant) -> bool {
    began.elapsed() >= DEADLINE
}

/// The Secret of a Gateway that has none.
fn first(gateway: &ObjectName, source: &KeySource, time: Timestamp) -> Option<Secret> {
    let key = match source {
        KeySource::Own => random()?,
        KeySource::Given(key) => key.clone(),
        KeySource::Unknown => return None,
    };
    Some(secret::new(gateway, &StoredKeys::first(key, time)))
}

/// Whether every connected proxy, of which there is at least one, has applied these keys.
fn is_applied(gateway: &ObjectName, keys: &StoredKeys, outputs: &Outputs) -> bool {
    let Some(keys) = keys.for_proxies() else {
        return false;
    };
    let version = Encoded::new(&session_keys::policy(gateway, &keys).into()).version;
    let acks = outputs.acknowledgements.get(gateway).unwrap_or_default();
    acks.connected > 0 && acks.session_keys == Some((version, acks.connected))
}

fn random() -> Option<SessionKey> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    SessionKey::new(&bytes).ok()
}

/// Whether the API server refused the list, so that the same is to be expected again. Where it refuses a watch, what
/// was listed is still known, and the watch goes on from there without another list.
fn is_refused_list(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => is_final(status.code),
        _ => false,
    }
}

/// Whether a response says that the request is not allowed or not possible, rather than not now.
fn is_final(code: u16) -> bool {
    (400..500).contains(&code) && !matches!(code, 408 | 410 | 429)
}

/// That a new key has been waiting for proxies for long.
fn pending(keys: &StoredKeys, time: Timestamp) -> Option<SessionKeyProblem> {
    let since = keys.waits_since()?;
    let waited = Duration::try_from(time.duration_since(since)).unwrap_or_default();
    (waited >= PENDING).then(|| SessionKeyProblem {
        reason: Reason::SessionKeysPending,
        message: format!(
            "a new session key of {} does not sign yet: it waits until every connected proxy has acknowledged it, \
             and one at least is connected; the key before stays in use",
            since.strftime("%Y-%m-%dT%H:%M:%SZ")
        )
        .into(),
    })
}

fn damaged(secret: &Secret, why: &InvalidKeys) -> SessionKeyProblem {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
    invalid(&format!(
        "Secret {namespace}/{name} has no session keys: {why}; proxies keep the keys that they have. Restore it \
         from a backup, or delete it: then there is a new key, and sessions begin anew"
    ))
}

fn unavailable(message: &str) -> SessionKeyProblem {
    SessionKeyProblem {
        reason: Reason::SessionKeysUnavailable,
        message: message.into(),
    }
}

fn invalid(message: &str) -> SessionKeyProblem {
    SessionKeyProblem {
        reason: Reason::SessionKeysInvalid,
        message: message.into(),
    }
}

const WITHOUT_KEYS: &str = "each proxy keeps the keys that it has, or makes one of its own, so that sessions do not \
                            hold across proxies: check the Role of the controller, which the chart installs";
const UNCHANGED: &str = "the session keys stay as they are";

/// Interval of comparing keys: 1 s, so that a new Gateway has its key before its proxies run.
const INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a watch, in seconds; then it begins again where it ended.
const WATCH_SECONDS: u32 = 60;
/// How long a response may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Pause after a write that failed: 30 s.
const RETRY: Duration = Duration::from_secs(30);
/// How long all proxies must have a new key before it signs: 1 min. A new leader has heard of all of them by then, and
/// one that is disconnected for a moment is back.
const SETTLE: Duration = Duration::from_mins(1);
/// Time from which on a condition says that a new key waits for proxies: 10 min.
const PENDING: Duration = Duration::from_mins(10);
/// How long a key is kept after it was replaced, at least: 1 h, so that a route that is created again for a moment
/// loses no session.
const LEAST_RETENTION: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests;
