//! The requests about classes that are under way. Each class has its own, with its own pause after a
//! failure, so that one that cannot be written does not delay the others.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::claims::ForeignClass;
use super::{apply_default, claim, report};
use crate::context::Context;

/// The requests under way, and the pauses.
pub(super) struct Requests {
    context: Context,
    running: JoinSet<Response>,
    /// Whether the default class is being applied.
    pub(super) is_applying: bool,
    /// When the default class is applied next; `None` if it is applied.
    apply_at: Option<Instant>,
    claiming: BTreeSet<String>,
    pauses: BTreeMap<String, Pause>,
    /// Classes of other installations that were reported.
    reported: BTreeSet<ForeignClass>,
}

/// A class whose claim could not be written.
#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    failures: u32,
}

enum Response {
    Applied(bool),
    Claimed { class: String, is_written: bool },
    Reported,
}

impl Requests {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            running: JoinSet::new(),
            is_applying: false,
            apply_at: Some(Instant::now()),
            claiming: BTreeSet::new(),
            pauses: BTreeMap::new(),
            reported: BTreeSet::new(),
        }
    }

    /// Starts what is due.
    pub(super) fn start(&mut self, now: Instant) {
        if !self.is_applying && self.apply_at.is_some_and(|at| at <= now) {
            self.is_applying = true;
            let context = self.context.clone();
            self.running
                .spawn(async move { Response::Applied(apply_default(context).await) });
        }
        for due in self.context.outputs.claims.due(now) {
            // To apply it may change its version.
            let is_applied = self.is_applying && due.class == self.context.args.gateway_class;
            let is_paused = { self.pauses.get(&due.class) }.is_some_and(|it| it.until > now);
            if is_applied || is_paused || !self.claiming.insert(due.class.clone()) {
                continue;
            }
            let context = self.context.clone();
            self.running.spawn(async move {
                let class = due.class.clone();
                let is_written = claim(context, due).await;
                Response::Claimed { class, is_written }
            });
        }
        self.report_foreign();
    }

    fn report_foreign(&mut self) {
        let foreign: BTreeSet<_> = self.context.outputs.claims.foreign().into_iter().collect();
        for class in foreign.difference(&self.reported).cloned() {
            let context = self.context.clone();
            self.running.spawn(async move {
                report(context, class).await;
                Response::Reported
            });
        }
        self.reported = foreign;
    }

    /// Takes the next response; waits forever if none is awaited. Cancel-safe.
    pub(super) async fn next(&mut self) {
        let response = match self.running.join_next().await {
            Some(Ok(response)) => response,
            // The process ends by it, as by a panic of any task.
            Some(Err(error)) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => return,
            },
            None => std::future::pending().await,
        };
        match response {
            Response::Applied(is_done) => {
                self.is_applying = false;
                self.apply_at = (!is_done).then(|| Instant::now() + APPLY_PAUSE);
            }
            Response::Claimed { class, is_written } => {
                self.claiming.remove(&class);
                if is_written {
                    self.pauses.remove(&class);
                } else {
                    self.pause(class);
                }
            }
            Response::Reported => {}
        }
    }

    fn pause(&mut self, class: String) {
        let failures = self.pauses.get(&class).map_or(0, |it| it.failures);
        let pause = CLAIM_PAUSE.saturating_mul(1 << failures.min(8));
        let pause = Pause {
            until: Instant::now() + pause.min(MAX_CLAIM_PAUSE),
            failures: failures.saturating_add(1),
        };
        self.pauses.insert(class, pause);
    }
}

/// Pause after a failed application of the default class.
const APPLY_PAUSE: Duration = Duration::from_secs(10);
/// Pause of a class after its claim could not be written: 2 s, doubled with each failure.
const CLAIM_PAUSE: Duration = Duration::from_secs(2);
/// Longest pause: 16 s. A claim that is not renewed for 90 s is lost.
const MAX_CLAIM_PAUSE: Duration = Duration::from_secs(16);
