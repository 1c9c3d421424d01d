//! Policies and filters: which applied, and why others were skipped.

use admin_types::trace::{Message, PolicyOutcome};

use super::super::event::TraceEvent;
use super::{Line, Tone, messages, or_placeholder, tabular};

/// The policies in effect, then their outcomes.
pub(super) fn lines(events: &[TraceEvent]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut outcomes = Vec::new();
    for message in messages(events) {
        match message {
            Message::PolicySelection { policies } if policies.is_empty() => {
                lines.push(Line::plain("policies of the rule: none"));
            }
            Message::PolicySelection { policies } => {
                // Several policies may set the same.
                let mut names: Vec<&str> = policies.iter().map(String::as_str).collect();
                names.dedup();
                let text = format!("policies of the rule: {}", names.join(", "));
                lines.push(Line::plain(&text));
            }
            Message::Policy {
                kind,
                outcome,
                detail,
            } => {
                let (tone, outcome) = match outcome {
                    PolicyOutcome::Applied => (Tone::Good, "applied"),
                    PolicyOutcome::Skipped => (Tone::Dimmed, "skipped"),
                };
                outcomes.push((tone, [kind.clone(), outcome.to_owned(), detail.clone()]));
            }
            Message::AuthorizationResult {
                by,
                allowed,
                detail,
            } => {
                let (tone, outcome) = if *allowed {
                    (Tone::Good, "allowed")
                } else {
                    (Tone::Bad, "denied")
                };
                outcomes.push((tone, [by.clone(), outcome.to_owned(), detail.clone()]));
            }
            _ => {}
        }
    }
    if !outcomes.is_empty() {
        lines.push(Line::plain(""));
        lines.extend(tabular(["POLICY", "OUTCOME", "DETAIL"], outcomes));
    }
    or_placeholder(lines, "no policies were evaluated")
}
