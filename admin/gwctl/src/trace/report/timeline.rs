//! The timeline section.

use admin_types::trace::Message;

use super::super::event::TraceEvent;
use super::{Line, millis, tabular};

/// One row per event, with a bar for its time span.
pub(super) fn lines(events: &[TraceEvent]) -> Vec<Line> {
    let end = events.iter().map(|event| event.time().1).max();
    let end = end.unwrap_or_default();
    let rows = events.iter().map(|event| {
        let (start, stop) = event.time();
        let cells = [
            millis(start),
            millis(stop.saturating_sub(start)),
            bar(start, stop, end),
            headline(event),
        ];
        (event.severity().into(), cells)
    });
    tabular(["START", "TOOK", "", "EVENT"], rows)
}

/// The span from `start` to `stop` on a scale from 0 to `end`.
fn bar(start: u64, stop: u64, end: u64) -> String {
    let scaled = |at: u64| -> usize {
        let cells = u128::from(at) * u128::from(CELLS) / u128::from(end.max(1));
        usize::try_from(cells.min(u128::from(CELLS - 1))).unwrap_or_default()
    };
    let (first, last) = (scaled(start), scaled(stop.max(start)));
    let cells = (0..usize::from(CELLS)).map(|cell| match cell {
        cell if cell < first || cell > last => '·',
        _ => '█',
    });
    cells.collect()
}

/// Width of a bar, in columns.
const CELLS: u16 = 24;

fn headline(event: &TraceEvent) -> String {
    let message = match event {
        TraceEvent::Unknown(unknown) => return format!("{} (unknown event type)", unknown.kind),
        TraceEvent::Known(event) => &event.message,
    };
    let or_none = |name: &Option<String>| name.as_deref().unwrap_or("none").to_owned();
    match message {
        Message::ConnectionStarted {
            client, protocol, ..
        } => format!("{protocol} connection from {client}"),
        Message::ConnectionFinished(it) => match &it.reason {
            None => "connection closed".to_owned(),
            Some(reason) => format!("connection closed: {reason}"),
        },
        Message::RequestStarted { client, .. } => format!("request from {client}"),
        Message::RequestSnapshot(it) => format!("request head: {} {}", it.method, it.path),
        Message::ListenerSelection { selected, .. } => format!("listener: {}", or_none(selected)),
        Message::RouteSelection { selected, .. } => format!("route: {}", or_none(selected)),
        Message::PolicySelection { policies } => format!("policies: {}", policies.len()),
        Message::Policy { kind, .. } => format!("policy: {kind}"),
        Message::AuthorizationResult { by, .. } => format!("authorization: {by}"),
        Message::BackendSelection {
            unresolved: Some(_),
            ..
        } => "backend: cannot be resolved".to_owned(),
        Message::BackendSelection { selected, .. } => format!("endpoint: {}", or_none(selected)),
        Message::BackendCallStart { attempt, .. } => format!("attempt {attempt}: connection"),
        Message::BackendCallResult { attempt, .. } => format!("attempt {attempt}: result"),
        Message::Retry { retried: true, .. } => "retry".to_owned(),
        Message::Retry { retried: false, .. } => "no retry".to_owned(),
        Message::ResponseSnapshot { status, .. } => format!("response head: {status}"),
        Message::RequestFinished(it) => format!("request finished: {}", it.status),
        Message::EventsLost { count } => format!("{count} events lost"),
    }
}
