//! What happened when.

use admin_types::trace::Message;

use super::super::event::Seen;
use super::{Line, millis, tabular};

/// A row and a bar for each event.
pub(super) fn lines(events: &[Seen]) -> Vec<Line> {
    let end = events.iter().map(|seen| seen.time().1).max();
    let end = end.unwrap_or_default();
    let rows = events.iter().map(|seen| {
        let (start, over) = seen.time();
        let cells = [
            millis(start),
            millis(over.saturating_sub(start)),
            bar(start, over, end),
            headline(seen),
        ];
        (seen.severity().into(), cells)
    });
    tabular(["START", "TOOK", "", "EVENT"], rows)
}

/// Where an event lies between the first and the last.
fn bar(start: u64, over: u64, end: u64) -> String {
    let scaled = |at: u64| -> usize {
        let cells = u128::from(at) * u128::from(CELLS) / u128::from(end.max(1));
        usize::try_from(cells.min(u128::from(CELLS - 1))).unwrap_or_default()
    };
    let (first, last) = (scaled(start), scaled(over.max(start)));
    let cells = (0..usize::from(CELLS)).map(|cell| match cell {
        cell if cell < first || cell > last => '·',
        _ => '█',
    });
    cells.collect()
}

/// Width of a bar.
const CELLS: u16 = 24;

fn headline(seen: &Seen) -> String {
    let message = match seen {
        Seen::Unknown(unknown) => return format!("{} (of a newer version)", unknown.kind),
        Seen::Known(event) => &event.message,
    };
    let or_none = |name: &Option<String>| name.as_deref().unwrap_or("none").to_owned();
    match message {
        Message::ConnectionStarted {
            client, protocol, ..
        } => format!("{protocol} connection of {client}"),
        Message::ConnectionFinished(it) => match &it.reason {
            None => "connection over".to_owned(),
            Some(reason) => format!("connection over: {reason}"),
        },
        Message::RequestStarted { client, .. } => format!("request of {client}"),
        Message::RequestSnapshot(it) => format!("head read: {} {}", it.method, it.path),
        Message::ListenerSelection { selected, .. } => format!("listener: {}", or_none(selected)),
        Message::RouteSelection { selected, .. } => format!("route: {}", or_none(selected)),
        Message::PolicySelection { policies } => format!("policies: {}", policies.len()),
        Message::Policy { kind, .. } => format!("policy: {kind}"),
        Message::AuthorizationResult { by, .. } => format!("authorization: {by}"),
        Message::BackendSelection {
            unresolved: Some(_),
            ..
        } => "backend: does not resolve".to_owned(),
        Message::BackendSelection { selected, .. } => format!("endpoint: {}", or_none(selected)),
        Message::BackendCallStart { attempt, .. } => format!("try {attempt}: connection"),
        Message::BackendCallResult { attempt, .. } => format!("try {attempt}: over"),
        Message::Retry { retried: true, .. } => "retry".to_owned(),
        Message::Retry { retried: false, .. } => "no retry".to_owned(),
        Message::ResponseSnapshot { status, .. } => format!("response's head: {status}"),
        Message::RequestFinished(it) => format!("request over: {}", it.status),
        Message::EventsLost { count } => format!("{count} events lost"),
    }
}
