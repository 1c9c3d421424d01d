//! The heads of request and response.

use admin_types::trace::Message;

use super::super::event::Seen;
use super::{Line, messages, or};

/// Both heads, as they came.
pub(super) fn lines(events: &[Seen]) -> Vec<Line> {
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
    or(lines, "no head was read")
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
