//! What policies and filters did, and why others did nothing.

use admin_types::trace::{Message, PolicyOutcome};

use super::super::event::Seen;
use super::{Line, Tone, messages, or, tabular};

/// What holds, then what was done.
pub(super) fn lines(events: &[Seen]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut done = Vec::new();
    for message in messages(events) {
        match message {
            Message::PolicySelection { policies } if policies.is_empty() => {
                lines.push(Line::plain("policies of the rule: none"));
            }
            Message::PolicySelection { policies } => {
                let text = format!("policies of the rule: {}", policies.join(", "));
                lines.push(Line::plain(&text));
            }
            Message::Policy {
                kind,
                outcome,
                detail,
            } => {
                let (tone, outcome) = match outcome {
                    PolicyOutcome::Applied => (Tone::Good, "applied"),
                    PolicyOutcome::Skipped => (Tone::Faint, "skipped"),
                };
                done.push((tone, [kind.clone(), outcome.to_owned(), detail.clone()]));
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
                done.push((tone, [by.clone(), outcome.to_owned(), detail.clone()]));
            }
            _ => {}
        }
    }
    if !done.is_empty() {
        lines.push(Line::plain(""));
        lines.extend(tabular(["POLICY", "OUTCOME", "DETAIL"], done));
    }
    or(lines, "it came to no policies")
}
