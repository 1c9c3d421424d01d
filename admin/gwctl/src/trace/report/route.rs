//! Which listener and rule serve the request, and why the others do not.

use admin_types::trace::{ListenerCandidate, Message, RouteCandidate, RouteOutcome};

use super::super::event::Seen;
use super::{Line, Tone, messages, or, tabular};

/// Listeners, then rules.
pub(super) fn lines(events: &[Seen]) -> Vec<Line> {
    let mut lines = Vec::new();
    for message in messages(events) {
        match message {
            Message::ListenerSelection {
                host, candidates, ..
            } => {
                let title = match host.as_str() {
                    "" => "Listeners of the port".to_owned(),
                    host => format!("Listeners that could have {host}"),
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
                lines.push(Line::heading("Rules, by their matches"));
                lines.extend(tabular(
                    ["", "RULE", "MATCH", "WHY"],
                    candidates.iter().map(rule),
                ));
                if *truncated {
                    lines.push(Line::new(Tone::Faint, "and more"));
                }
            }
            _ => {}
        }
    }
    or(lines, "it came to no selection")
}

fn listener(candidate: &ListenerCandidate) -> (Tone, [String; 3]) {
    let (tone, mark) = if candidate.selected {
        (Tone::Good, CHOSEN)
    } else {
        (Tone::Faint, LOST)
    };
    let (listener, hostname) = (candidate.listener.clone(), candidate.hostname.clone());
    (tone, [mark.to_owned(), listener, hostname])
}

fn rule(candidate: &RouteCandidate) -> (Tone, [String; 4]) {
    let (tone, mark) = match candidate.outcome {
        RouteOutcome::Selected => (Tone::Good, CHOSEN),
        RouteOutcome::Shadowed => (Tone::Plain, SHADOWED),
        RouteOutcome::Lost => (Tone::Faint, LOST),
    };
    let why = match (candidate.outcome, candidate.reason.as_str()) {
        (RouteOutcome::Selected, "") => "it serves the request",
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

const CHOSEN: &str = "✓";
const SHADOWED: &str = "≈";
const LOST: &str = "✗";
