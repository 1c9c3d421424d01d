//! Reports errors in files, once, with file, line, object and field.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{error, info, warn};
use translate::ObjectRef;
use translate::files::{Configuration, Finding, Severity};
use translate::status::{ProblemCondition, Status};

/// The conditions that were logged and still hold.
#[derive(Debug, Default)]
pub(super) struct Report {
    reported: BTreeMap<ObjectRef, BTreeSet<String>>,
    problems: usize,
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
    pub(super) fn statuses(&mut self, statuses: Statuses, configuration: &Configuration) {
        for (object, status) in statuses {
            let before = self.reported.remove(&object).unwrap_or_default();
            let conditions = status
                .iter()
                .flat_map(|status| status.problem_conditions(&object));
            let now: BTreeSet<String> = conditions
                .map(|condition| {
                    let text = condition.to_string();
                    if !before.contains(&text) {
                        warn_of(&condition, &text, configuration);
                    }
                    text
                })
                .collect();
            self.problems = (self.problems + now.len()).saturating_sub(before.len());
            if !now.is_empty() {
                self.reported.insert(object, now);
            }
        }
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

    /// Conditions with a problem.
    pub(super) fn problems(&self) -> usize {
        self.problems
    }
}

fn warn_of(condition: &ProblemCondition<'_>, text: &str, configuration: &Configuration) {
    let place = configuration.locate(&condition.object, condition.field);
    let place = place.map(|(file, line)| format!("{file}:{line}: "));
    warn!(
        condition = %condition.condition,
        reason = %condition.reason,
        "{}{text}",
        place.unwrap_or_default()
    );
}
