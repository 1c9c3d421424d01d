//! Reports what is wrong with files, once, with file, line, object and field.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{error, info, warn};
use translate::diagnosis::{Diagnosis, Hints};
use translate::files::{Configuration, Finding, Severity};
use translate::status::{ProblemCondition, Status};
use translate::{Level, ObjectRef};

/// What was logged and still holds.
#[derive(Debug, Default)]
pub(super) struct Report {
    reported: BTreeMap<ObjectRef, BTreeSet<(Level, String)>>,
    diagnoses: Vec<Diagnosis>,
    /// The objects whose previous version stayed in effect at the last load.
    kept: BTreeSet<ObjectRef>,
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
            let now: BTreeSet<(Level, String)> = conditions
                .map(|condition| {
                    let problem = (condition.level(), condition.to_string());
                    if !before.contains(&problem) {
                        warn_of(&condition, &problem.1, configuration);
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
    pub(super) fn all(&self, configuration: &Configuration) -> Vec<(Level, String)> {
        let findings = configuration.findings().into_iter();
        let findings = findings.map(|it| (it.severity.into(), it.to_string()));
        let conditions = self.reported.iter().flat_map(|(object, problems)| {
            let place = place(configuration, object, None);
            let problems = problems.iter();
            problems.map(move |(level, text)| (*level, format!("{place}{text}")))
        });
        let diagnoses = self.diagnoses.iter().map(|it| {
            let place = place(configuration, &it.object, Some(&it.field));
            (it.level, format!("{place}{it}"))
        });
        let mut all: Vec<(Level, String)> = findings.chain(conditions).chain(diagnoses).collect();
        all.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
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

/// `file:line: `, where it is known.
fn place(configuration: &Configuration, object: &ObjectRef, field: Option<&str>) -> String {
    let place = configuration.locate(object, field);
    place.map_or_else(String::new, |(file, line)| format!("{file}:{line}: "))
}
