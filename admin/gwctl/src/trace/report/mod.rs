//! Formats the events of a trace as sections of lines, for both plain text and the terminal UI.

mod backend;
mod messages;
mod policies;
mod route;
mod summary;
mod timeline;

use admin_types::trace::{Message, Severity};

use super::event::TraceEvent;
use crate::output::shown;
use crate::table::Table;

#[derive(Debug)]
pub(super) struct Report {
    /// The request and its outcome on one line.
    pub(super) title: Line,
    pub(super) sections: Vec<Section>,
}

/// A section of a report.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) lines: Vec<Line>,
}

/// A line of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) tone: Tone,
    pub(super) text: String,
}

/// The meaning of a line, which the terminal UI shows as a color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Heading,
    Plain,
    Good,
    Warning,
    Bad,
    /// Not selected, or of little interest.
    Dimmed,
}

impl From<Severity> for Tone {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Success => Self::Good,
            Severity::Info => Self::Plain,
            Severity::Warn => Self::Warning,
            Severity::Error => Self::Bad,
        }
    }
}

impl Line {
    /// Replaces control characters in `text`.
    pub(super) fn new(tone: Tone, text: &str) -> Self {
        Self {
            tone,
            text: shown(text),
        }
    }

    fn plain(text: &str) -> Self {
        Self::new(Tone::Plain, text)
    }

    fn heading(text: &str) -> Self {
        Self::new(Tone::Heading, text)
    }
}

impl Report {
    /// Formats the events of one request.
    pub(super) fn new(events: &[TraceEvent]) -> Self {
        let (title, summary) = summary::lines(events);
        let sections = [
            ("Summary", summary),
            (ROUTE, route::lines(events)),
            ("Policies", policies::lines(events)),
            ("Backend", backend::lines(events)),
            ("Messages", messages::lines(events)),
            ("Timeline", timeline::lines(events)),
        ];
        Self {
            title,
            sections: sections
                .into_iter()
                .map(|(title, lines)| Section { title, lines })
                .collect(),
        }
    }

    /// Adds to the section about routes what the events do not show.
    pub(super) fn note(&mut self, notes: &[String]) {
        let mut sections = self.sections.iter_mut();
        if let Some(route) = sections.find(|it| it.title == ROUTE) {
            let notes = notes.iter().map(|it| Line::new(Tone::Bad, it));
            route.lines.extend(notes);
        }
    }
}

const ROUTE: &str = "Route";

/// The messages of the known events.
fn messages(events: &[TraceEvent]) -> impl Iterator<Item = &Message> {
    events.iter().filter_map(|event| match event {
        TraceEvent::Known(event) => Some(&event.message),
        TraceEvent::Unknown(_) => None,
    })
}

/// The lines of a table, with a tone per row.
fn tabular<const COLUMNS: usize>(
    heading: [&str; COLUMNS],
    rows: impl IntoIterator<Item = (Tone, [String; COLUMNS])>,
) -> Vec<Line> {
    let mut table = Table::new(heading);
    let mut tones = vec![Tone::Heading];
    for (tone, cells) in rows {
        table.row(cells);
        tones.push(tone);
    }
    let lines = table.lines();
    let lines = tones.iter().zip(&lines);
    lines.map(|(tone, text)| Line::new(*tone, text)).collect()
}

/// Replaces an empty section by a placeholder line.
fn or_placeholder(lines: Vec<Line>, placeholder: &str) -> Vec<Line> {
    if lines.is_empty() {
        return vec![Line::new(Tone::Dimmed, placeholder)];
    }
    lines
}

/// A time in milliseconds, such as `1.234 ms`.
fn millis(micros: u64) -> String {
    format!("{}.{:03} ms", micros / 1000, micros % 1000)
}

#[cfg(test)]
pub(super) mod tests;
