//! The heads of the request and of the response.

use admin_types::trace::Message;

use super::super::event::TraceEvent;
use super::{Line, messages, or_placeholder};

/// Both heads, as received.
pub(super) fn lines(events: &[TraceEvent]) -> Vec<Line> {
    let mut lines = Vec::new();
    for message in messages(events) {
        match message {
            Message::RequestSnapshot(it) => {
                let title = format!("{} {}  {}", it.method, it.path, it.protocol);
                head(&title, &it.headers, &mut lines);
            }
            Message::ResponseSnapshot { status, headers } => {
                head(&format!("{status} from the backend"), headers, &mut lines);
            }
            _ => {}
        }
    }
    or_placeholder(lines, "no request head was received")
}

fn head(title: &str, headers: &[(String, String)], lines: &mut Vec<Line>) {
    if !lines.is_empty() {
        lines.push(Line::plain(""));
    }
    lines.push(Line::heading(title));
    for (name, value) in headers {
        lines.push(Line::plain(&format!("{name}: {value}")));
    }
}
