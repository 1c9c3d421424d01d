//! Listener and route selection, and why the other candidates were rejected.

use admin_types::trace::{ListenerCandidate, Message, RouteCandidate, RouteOutcome};

use super::super::event::TraceEvent;
use super::{Line, Tone, messages, or_placeholder, tabular};

/// Candidate listeners, then candidate rules.
pub(super) fn lines(events: &[TraceEvent]) -> Vec<Line> {
    let mut lines = Vec::new();
    for message in messages(events) {
        match message {
            Message::ListenerSelection {
                host, candidates, ..
            } => {
                let title = match host.as_str() {
                    "" => "Listeners on the port".to_owned(),
                    host => format!("Candidate listeners for {host}"),
                };
                lines.push(Line::heading(&title));
                lines.extend(tabular(
                    ["", "LISTENER", "HOSTNAME"],
                    candidates.iter().map(listener),
                ));
            }
            Message::RouteSelection {
                candidates,
                truncated,
                ..
            } => {
                lines.push(Line::plain(""));
                lines.push(Line::heading("Candidate rules"));
                lines.extend(tabular(
                    ["", "RULE", "MATCH", "REASON"],
                    candidates.iter().map(rule),
                ));
                if *truncated {
                    lines.push(Line::new(Tone::Dimmed, "(list truncated)"));
                }
            }
            _ => {}
        }
    }
    or_placeholder(lines, "no route was selected")
}

fn listener(candidate: &ListenerCandidate) -> (Tone, [String; 3]) {
    let (tone, mark) = if candidate.selected {
        (Tone::Good, SELECTED)
    } else {
        (Tone::Dimmed, LOST)
    };
    let (listener, hostname) = (candidate.listener.clone(), candidate.hostname.clone());
    (tone, [mark.to_owned(), listener, hostname])
}

fn rule(candidate: &RouteCandidate) -> (Tone, [String; 4]) {
    let (tone, mark) = match candidate.outcome {
        RouteOutcome::Selected => (Tone::Good, SELECTED),
        RouteOutcome::Shadowed => (Tone::Plain, SHADOWED),
        RouteOutcome::Lost => (Tone::Dimmed, LOST),
    };
    let why = match (candidate.outcome, candidate.reason.as_str()) {
        (RouteOutcome::Selected, "") => "selected",
        (_, reason) => reason,
    };
    let cells = [
        mark.to_owned(),
        candidate.route.clone(),
        candidate.match_index.to_string(),
        why.to_owned(),
    ];
    (tone, cells)
}

const SELECTED: &str = "✓";
const SHADOWED: &str = "≈";
const LOST: &str = "✗";
