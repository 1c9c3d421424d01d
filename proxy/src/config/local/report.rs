//! Tells users what is wrong with their files, once, with file, line, object and field.

use std::collections::BTreeSet;

use tracing::{error, info, warn};
use translate::Statuses;
use translate::admit::{Configuration, Finding, Severity};

/// What was said of conditions and still holds.
#[derive(Debug, Default)]
pub(super) struct Report {
    said: BTreeSet<String>,
}

impl Report {
    /// Logs a finding of admission: `file:line: object field: what is wrong and what to do`.
    pub(super) fn finding(finding: &Finding) {
        let reason = finding.reason;
        match finding.severity {
            Severity::Info => info!(%reason, "{finding}"),
            Severity::Warning => warn!(%reason, "{finding}"),
            Severity::Error => error!(%reason, "{finding}"),
        }
    }

    /// Logs the conditions that are not as they should be, and were not so before.
    pub(super) fn conditions(&mut self, statuses: &Statuses, configuration: &Configuration) {
        let mut said = BTreeSet::new();
        for unhappy in statuses.unhappy() {
            let whole = unhappy.to_string();
            if !self.said.contains(&whole) {
                let place = configuration.locate(&unhappy.object, unhappy.field);
                let place = place.map(|(file, line)| format!("{file}:{line}: "));
                warn!(
                    condition = %unhappy.condition,
                    reason = %unhappy.reason,
                    "{}{whole}",
                    place.unwrap_or_default()
                );
            }
            said.insert(whole);
        }
        self.said = said;
    }

    /// Conditions that are not as they should be.
    pub(super) fn unhappy(&self) -> usize {
        self.said.len()
    }
}
