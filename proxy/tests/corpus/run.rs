//! Runs cases: many concurrent clients, each with its own listener and recording origin, so that
//! everything that reaches an origin belongs to its case.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::case::{Case, Connection, Presence};
use crate::compare;
use crate::support::{Client, Driver, Gateway, Message, Origin, client, gateway, origin, raw};

/// A gateway with tracks: listeners, each with its own origin.
pub(crate) struct Track {
    gateway: Gateway,
    origins: Vec<Origin>,
}

/// A case, sent whole or in two pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) case: &'a Case,
    pub(crate) split: Option<usize>,
}

impl Track {
    /// Starts the gateway with `limits` beside the corpus' own.
    pub(crate) fn start(driver: Driver, limits: &str) -> Self {
        let origins: Vec<Origin> = (0..LANES).map(|_| origin()).collect();
        let mut builder = gateway(driver).limits(&format!("requestBodyBytes: 100000{limits}"));
        for (lane, origin) in origins.iter().enumerate() {
            let name = format!("lane-{lane}");
            // The first track is the listener that every gateway has.
            let listener = if lane == 0 {
                "http".to_owned()
            } else {
                name.clone()
            };
            builder = if lane == 0 {
                builder
            } else {
                builder.listener(&listener)
            };
            builder = builder
                .backend(&name, &[origin.address()])
                .rule_of(&listener, &format!("{{backendRefs: [{{@{name}}}]}}"));
        }
        Self {
            gateway: builder.shards(2).start(),
            origins,
        }
    }

    /// Runs them all and returns a sentence for each that failed.
    pub(crate) fn run(&self, runs: &[Run<'_>]) -> Vec<String> {
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for lane in 0..LANES {
                let (next, failures): (_, &Mutex<Vec<String>>) = (&next, &failures);
                scope.spawn(move || {
                    while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if failures.lock().expect("no holder panics").len() >= ENOUGH {
                            break;
                        }
                        if let Err(why) = self.one(lane, *run) {
                            let split = run
                                .split
                                .map_or(String::new(), |at| format!(" split at {at}"));
                            let failure = format!("{}{split}: {why}", run.case.name);
                            failures.lock().expect("no holder panics").push(failure);
                        }
                    }
                });
            }
        });
        failures.into_inner().expect("no holder panics")
    }

    fn one(&self, lane: usize, run: Run<'_>) -> Result<(), String> {
        let origin = &self.origins[lane];
        prepare(origin, run.case);
        let mut client = client(self.gateway.address_of(lane));
        match run.split {
            None => client.sends(&run.case.client),
            Some(at) => client.sends_split(&run.case.client, at),
        };
        if run.case.finishes {
            client.finishes();
        }
        let answered = answers(&mut client, run.case).and_then(|()| ending(&mut client, run.case));
        // The forwarded requests tell more than the responses, so they are compared first.
        let forwarded = forwarded(origin, run.case);
        origin.forgets_replies();
        forwarded.and(answered)
    }
}

fn prepare(origin: &Origin, case: &Case) {
    origin.take();
    origin.forgets_replies();
    let scripts = case.origin.iter().map(|answer| {
        let reply = raw(&answer.bytes);
        if answer.closes { reply.closes() } else { reply }
    });
    origin.next_replies(scripts);
}

fn answers(client: &mut Client, case: &Case) -> Result<(), String> {
    let mut method = case
        .forwarded
        .iter()
        .map(|request| request.start.split(' ').next().unwrap_or(""));
    let mut pending: Option<Message> = None;
    for (presence, expected) in &case.responses {
        let interim = expected.start.starts_with('1');
        let method = if interim {
            "GET"
        } else {
            method.next().unwrap_or("GET")
        };
        if *presence == Presence::BreaksOff {
            return broken_off(client, method);
        }
        let response = match pending.take() {
            Some(message) => message,
            None => next_reply(client, method, &expected.start)?,
        };
        if *presence == Presence::MayCome && response.status().to_string() != expected.start {
            pending = Some(response);
            continue;
        }
        compare::response(expected, &response)?;
    }
    if case.verdict.refusals.is_empty() {
        return Ok(());
    }
    refusal(client, case)
}

/// The next response, without interim responses unless they are expected.
fn next_reply(client: &mut Client, method: &str, status: &str) -> Result<Message, String> {
    loop {
        let response = client.reply_to(method);
        let response = response.map_err(|cut| format!("{cut}, not {status}"))?;
        if response.status() != 100 || status == "100" {
            return Ok(response);
        }
    }
}

/// A truncated response; one that was truncated before any of it was forwarded may become an error
/// response.
fn broken_off(client: &mut Client, method: &str) -> Result<(), String> {
    match client.reply_to(method) {
        Err(cut) if cut.by_peer() && !cut.is_empty() => Ok(()),
        Ok(message) if message.status() == 502 => {
            client.finishes();
            Ok(())
        }
        other => Err(format!(
            "a response that breaks off should have come, not {other:?}"
        )),
    }
}

fn refusal(client: &mut Client, case: &Case) -> Result<(), String> {
    let allowed = &case.verdict.refusals;
    match client.reply_to("GET") {
        Ok(got) if !allowed.contains(&got.status()) => {
            Err(format!("one of {allowed:?} should have come, not {got}"))
        }
        Ok(got) if case.verdict.connection == Connection::Ends && !got.says_close() => {
            Err(format!("a refusal that closes should say so: {got}"))
        }
        Ok(_) => Ok(()),
        Err(cut) if allowed.contains(&0) && cut.by_peer() && cut.is_empty() => Ok(()),
        Err(cut) => Err(format!("one of {allowed:?} should have come: {cut}")),
    }
}

/// A connection that stays open serves one more request, which shows that no bytes were left over.
fn ending(client: &mut Client, case: &Case) -> Result<(), String> {
    match case.verdict.connection {
        Connection::Either => Ok(()),
        Connection::Ends => match client.reply_to("GET") {
            Err(cut) if cut.by_peer() && cut.is_empty() => Ok(()),
            other => Err(format!("the connection should end: {other:?}")),
        },
        Connection::GoesOn => {
            client.gets(AFTER);
            match client.reply_to("GET") {
                Ok(got) if got.status() == 200 && got.body == b"ok" => Ok(()),
                other => Err(format!(
                    "the connection should serve one more request: {other:?}"
                )),
            }
        }
    }
}

fn forwarded(origin: &Origin, case: &Case) -> Result<(), String> {
    let (mut got, refusals) = origin.take();
    if !refusals.is_empty() {
        return Err(format!("the origin was sent malformed bytes: {refusals:?}"));
    }
    // The beginning of an earlier partial case may arrive only now.
    got.retain(|request| request.complete || request.target() != PARTIAL);
    if case.verdict.connection == Connection::GoesOn
        && got.last().is_some_and(|r| r.target() == AFTER)
    {
        got.pop();
    }
    for (expected, got) in case.forwarded.iter().zip(&got) {
        compare::request(expected, got)?;
    }
    match (case.forwarded.len(), got.len()) {
        (expected, got) if expected == got => Ok(()),
        (expected, count) => {
            let targets: Vec<String> = got.iter().map(ToString::to_string).collect();
            Err(format!(
                "{expected} requests should have reached the origin, not {count}: {targets:?}"
            ))
        }
    }
}

/// The pieces of a case to try: every byte boundary of a short one, the ends of a long one.
pub(crate) fn splits(case: &Case) -> Vec<usize> {
    let length = case.client.len();
    (1..length)
        .filter(|at| *at <= EDGE || length - at <= EDGE)
        .collect()
}

/// The head timeout that the slow cases exceed.
pub(crate) const SHORT_HEAD_DEADLINE: Duration = Duration::from_millis(300);

/// Failures after which a run stops: one mistake can fail, and time out, thousands of splits.
const ENOUGH: usize = 100;

/// Listeners, origins and client threads. Clients mostly wait, so more than there are cores.
const LANES: usize = 8;

/// Boundaries at each end of a case that are tried; enough for every byte of all but the huge ones.
const EDGE: usize = 300;

/// The target of partial cases, so that a late request is not attributed to another case.
const PARTIAL: &str = "/partial";

/// The path of the request that shows that a connection is still usable.
const AFTER: &str = "/after-the-case";
