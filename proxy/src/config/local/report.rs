//! Reports what is wrong with files, once, with file, line, object and field.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{error, info, warn};
use translate::diagnosis::{Diagnosis, Hints};
use translate::files::{Configuration, Finding, Severity};
use translate::status::{ProblemCondition, Reason, Status};
use translate::{Level, Object, ObjectRef};

use crate::config::in_force::FileProblem;

/// What was logged and still holds.
#[derive(Debug, Default)]
pub(super) struct Report {
    reported: BTreeMap<ObjectRef, BTreeSet<Reported>>,
    diagnoses: Vec<Diagnosis>,
    /// The objects whose previous version stayed in effect at the last load.
    kept: BTreeSet<ObjectRef>,
}

/// A condition with a problem.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Reported {
    level: Level,
    text: String,
    attachment: Attachment,
}

/// Whether a problem keeps a route from its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Attachment {
    Attached,
    Missing,
}

impl Attachment {
    fn of(reason: Reason) -> Self {
        match reason {
            Reason::NoMatchingParent
            | Reason::NotAllowedByListeners
            | Reason::NoMatchingListenerHostname => Self::Missing,
            _ => Self::Attached,
        }
    }
}

/// Objects whose status changed.
type Statuses = Vec<(ObjectRef, Option<Status>)>;

impl Report {
    /// Logs a finding of admission: `file:line: object field: problem and remedy`.
    pub(super) fn finding(finding: &Finding) {
        let reason = finding.reason;
        match finding.severity {
            Severity::Info => info!(%reason, "{finding}"),
            Severity::Warning => warn!(%reason, "{finding}"),
            Severity::Error => error!(%reason, "{finding}"),
        }
    }

    /// Takes changed statuses, and logs conditions with a problem that are new.
    pub(super) fn statuses(
        &mut self,
        statuses: Statuses,
        configuration: &Configuration,
        hints: &Hints<'_>,
    ) {
        for (object, mut status) in statuses {
            let before = self.reported.remove(&object).unwrap_or_default();
            if let Some(status) = &mut status {
                hints.complete(&object, status);
            }
            let conditions = status
                .iter()
                .flat_map(|status| status.problem_conditions(&object));
            let now: BTreeSet<Reported> = conditions
                .map(|condition| {
                    let problem = Reported {
                        level: condition.level(),
                        text: condition.to_string(),
                        attachment: Attachment::of(condition.reason),
                    };
                    if !before.contains(&problem) {
                        warn_of(&condition, &problem.text, configuration);
                    }
                    problem
                })
                .collect();
            if !now.is_empty() {
                self.reported.insert(object, now);
            }
        }
    }

    /// Takes what does not work as it is written, and logs what is new of it, and what is resolved.
    pub(super) fn diagnoses(&mut self, now: Vec<Diagnosis>, configuration: &Configuration) {
        // A text may change while the problem is the same: another name is suggested.
        let identity = |it: &Diagnosis| (it.object.clone(), it.field.clone(), it.reason);
        let before: BTreeSet<_> = self.diagnoses.iter().map(identity).collect();
        let after: BTreeSet<_> = now.iter().map(identity).collect();
        for gone in self
            .diagnoses
            .iter()
            .filter(|it| !after.contains(&identity(it)))
        {
            info!(reason = %gone.reason, "resolved: {} {}", gone.object, gone.field);
        }
        for new in now.iter().filter(|it| !before.contains(&identity(it))) {
            let place = place(configuration, &new.object, Some(&new.field));
            let reason = new.reason;
            match new.level {
                Level::Note => info!(%reason, "{place}{new}"),
                Level::Warning | Level::Error => warn!(%reason, "{place}{new}"),
            }
        }
        self.diagnoses = now;
    }

    /// Takes the objects whose previous version stays in effect, and logs those for which that has
    /// ended.
    pub(super) fn kept(&mut self, configuration: &Configuration) {
        let now = configuration.kept();
        for object in self.kept.difference(now) {
            if configuration.get(object).is_some() {
                info!("{object}: its current version is in effect again");
            } else {
                info!("{object}: it was removed, and its previous version with it");
            }
        }
        if self.kept != *now {
            self.kept.clone_from(now);
        }
    }

    /// Conditions with a problem, and what else does not work as it is written.
    pub(super) fn problems(&self) -> usize {
        let conditions = self.reported.values().map(BTreeSet::len);
        let diagnoses = self.diagnoses.iter().filter(|it| it.level == Level::Error);
        conditions.sum::<usize>() + diagnoses.count()
    }

    /// All of it with what is invalid, each with its place, the worst first.
    pub(super) fn all(&self, configuration: &Configuration) -> Vec<FileProblem> {
        let findings = configuration.findings().into_iter();
        let findings = findings.map(|it| FileProblem {
            level: it.severity.into(),
            text: it.to_string(),
            hosts: Vec::new(),
        });
        let conditions = self.reported.iter().flat_map(|(object, problems)| {
            let place = place(configuration, object, None);
            let problems = problems.iter();
            problems.map(move |it| FileProblem {
                level: it.level,
                text: format!("{place}{}", it.text),
                hosts: hosts(configuration, object, it.attachment),
            })
        });
        let diagnoses = self.diagnoses.iter().map(|it| {
            let place = place(configuration, &it.object, Some(&it.field));
            FileProblem {
                level: it.level,
                text: format!("{place}{it}"),
                hosts: hosts(configuration, &it.object, Attachment::of(it.reason)),
            }
        });
        let mut all: Vec<FileProblem> = findings.chain(conditions).chain(diagnoses).collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.level));
        all
    }
}

fn warn_of(condition: &ProblemCondition<'_>, text: &str, configuration: &Configuration) {
    let place = place(configuration, &condition.object, condition.field);
    warn!(
        condition = %condition.condition,
        reason = %condition.reason,
        "{place}{text}",
    );
}

/// The hosts of a route of requests that has no parent because of a problem; `*` where it is for all.
fn hosts(configuration: &Configuration, object: &ObjectRef, attachment: Attachment) -> Vec<String> {
    let route = configuration
        .get(object)
        .filter(|_| attachment == Attachment::Missing);
    match route {
        Some(Object::HttpRoute(route)) => listed(&route.spec.hostnames),
        Some(Object::GrpcRoute(route)) => listed(&route.spec.hostnames),
        _ => Vec::new(),
    }
}

fn listed(hosts: &[String]) -> Vec<String> {
    match hosts {
        [] => vec!["*".to_owned()],
        hosts => hosts.to_vec(),
    }
}

/// `file:line: `, where it is known.
fn place(configuration: &Configuration, object: &ObjectRef, field: Option<&str>) -> String {
    let place = configuration.locate(object, field);
    place.map_or_else(String::new, |(file, line)| format!("{file}:{line}: "))
}
