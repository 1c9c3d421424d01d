//! What the events of a trace come to: sections of lines, the same for every way to show them.

mod backend;
mod messages;
mod policies;
mod route;
mod summary;
mod timeline;

use admin_types::trace::{Message, Severity};

use super::event::Seen;
use crate::output::shown;
use crate::table::Table;

/// A trace as text.
#[derive(Debug)]
pub(super) struct Report {
    /// What it is about, in one line.
    pub(super) title: Line,
    /// Its parts.
    pub(super) sections: Vec<Section>,
}

/// A part of a trace.
#[derive(Debug)]
pub(super) struct Section {
    /// Its name.
    pub(super) title: &'static str,
    /// Its text.
    pub(super) lines: Vec<Line>,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// How it is meant.
    pub(super) tone: Tone,
    /// Its text, without control characters.
    pub(super) text: String,
}

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// A heading.
    Heading,
    /// As it is.
    Plain,
    /// It went well, or was chosen.
    Good,
    /// It is not as it should be.
    Warning,
    /// It failed.
    Bad,
    /// It was passed over.
    Faint,
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
    /// A line.
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
    /// Of the events of one request.
    pub(super) fn of(events: &[Seen]) -> Self {
        let (title, summary) = summary::lines(events);
        let sections = [
            ("Summary", summary),
            ("Route", route::lines(events)),
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
}

/// What the events that are known say.
fn messages(events: &[Seen]) -> impl Iterator<Item = &Message> {
    events.iter().filter_map(|seen| match seen {
        Seen::Known(event) => Some(&event.message),
        Seen::Unknown(_) => None,
    })
}

/// The lines of a table, its rows in tones of their own.
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

/// What is said in place of an empty section.
fn or(lines: Vec<Line>, nothing: &str) -> Vec<Line> {
    if lines.is_empty() {
        return vec![Line::new(Tone::Faint, nothing)];
    }
    lines
}

/// `1.234 ms`.
fn millis(micros: u64) -> String {
    format!("{}.{:03} ms", micros / 1000, micros % 1000)
}

#[cfg(test)]
pub(super) mod tests;
