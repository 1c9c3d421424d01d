//! Endpoint selection with scores, attempts and retries.

use admin_types::trace::{EndpointScore, Message};

use super::super::event::TraceEvent;
use super::{Line, Tone, messages, millis, or_placeholder, tabular};

/// Selections and attempts, in order.
pub(super) fn lines(events: &[TraceEvent]) -> Vec<Line> {
    let mut lines = Vec::new();
    for message in messages(events) {
        match message {
            Message::BackendSelection {
                backend,
                unresolved: Some(why),
                ..
            } => {
                let text = format!("{backend} cannot be resolved: {why}");
                lines.push(Line::new(Tone::Bad, &text));
            }
            Message::BackendSelection {
                backend,
                unresolved: None,
                selected,
                endpoints,
                truncated,
            } => {
                if !lines.is_empty() {
                    lines.push(Line::plain(""));
                }
                lines.push(Line::heading(&format!("Endpoints of {backend}")));
                lines.extend(table(selected.as_deref(), endpoints));
                if *truncated {
                    lines.push(Line::new(Tone::Dimmed, "(list truncated)"));
                }
            }
            other => lines.extend(step(other)),
        }
    }
    or_placeholder(lines, "no backend was selected")
}

fn table(selected: Option<&str>, endpoints: &[EndpointScore]) -> Vec<Line> {
    let heading = [
        "",
        "ENDPOINT",
        "SCORE",
        "HEALTH",
        "LATENCY",
        "IN FLIGHT",
        "WEIGHT",
        "NOTE",
    ];
    let rows = endpoints.iter().map(|it| {
        let is_selected = selected == Some(it.endpoint.as_str());
        let (tone, mark) = match (is_selected, it.ejected || it.probed_out) {
            (true, _) => (Tone::Good, "✓"),
            (false, true) => (Tone::Bad, " "),
            (false, false) => (Tone::Plain, " "),
        };
        let notes = [
            ("already tried", it.tried),
            ("ejected", it.ejected),
            ("fails its health check", it.probed_out),
        ];
        let notes = notes.iter().filter(|note| note.1);
        let notes = notes.map(|note| note.0.to_owned());
        let zone = it.zone.as_ref().map(|zone| format!("in {zone}"));
        let preferred = it.preferred.filter(|it| *it);
        let preferred = preferred.map(|_| "preferred".to_owned());
        let notes: Vec<String> = zone.into_iter().chain(preferred).chain(notes).collect();
        let cells = [
            mark.to_owned(),
            it.endpoint.clone(),
            format!("{:.3}", it.score),
            format!("{:.2}", it.health),
            format!("{:.3} ms", it.latency_ms),
            it.in_flight.to_string(),
            it.weight.to_string(),
            notes.join(", "),
        ];
        (tone, cells)
    });
    let mut lines = tabular(heading, rows);
    if selected.is_none() {
        lines.push(Line::new(Tone::Bad, "no endpoint is available"));
    }
    lines
}

/// The start or result of an attempt, or the retry decision.
fn step(message: &Message) -> Option<Line> {
    Some(match message {
        Message::BackendCallStart {
            attempt,
            endpoint,
            reused,
            connect_micros,
        } => {
            let how = match (reused, connect_micros) {
                (true, _) => "on a pooled connection".to_owned(),
                (false, Some(micros)) => format!("on a new connection ({})", millis(*micros)),
                (false, None) => "on a new connection".to_owned(),
            };
            Line::plain(&format!("attempt {attempt}: {endpoint}, {how}"))
        }
        Message::BackendCallResult {
            attempt,
            status,
            reason,
            ..
        } => {
            let end = match (status, reason) {
                (_, Some(reason)) => reason.clone(),
                (Some(status), None) => format!("status {status}"),
                (None, None) => "no response".to_owned(),
            };
            let tone = match (status, reason) {
                (_, Some(_)) | (None, None) => Tone::Bad,
                (Some(500..), None) => Tone::Warning,
                (Some(_), None) => Tone::Good,
            };
            Line::new(tone, &format!("attempt {attempt}: {end}"))
        }
        Message::Retry { retried, reason } => {
            let (tone, what) = if *retried {
                (Tone::Warning, "retried")
            } else {
                (Tone::Plain, "not retried")
            };
            Line::new(tone, &format!("{what}: {reason}"))
        }
        _ => return None,
    })
}
