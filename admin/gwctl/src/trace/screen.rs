//! A trace in a terminal: one section at a time, and keys to go about in it.
//!
//! What is drawn depends on [`View`] alone; [`show`] has the terminal and its keys.

use anyhow::{Context as _, Result};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line as Drawn, Span};
use ratatui::widgets::{Block, Paragraph, Tabs};

use super::report::{Line, Report, Tone};

/// Shows a trace until the user has seen enough.
///
/// # Errors
/// The terminal fails.
pub(super) fn show(report: &Report) -> Result<()> {
    let mut terminal = ratatui::try_init().context("the terminal cannot be drawn on")?;
    let mut view = View::of(report);
    let shown = loop {
        if let Err(error) = terminal.draw(|frame| view.draw(frame)) {
            break Err(error);
        }
        match event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                if view.press(key) == After::Quit {
                    break Ok(());
                }
            }
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    ratatui::restore();
    shown.context("the terminal failed")
}

/// What a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Stay,
    Quit,
}

/// What is shown of a trace.
struct View<'a> {
    report: &'a Report,
    section: usize,
    /// Lines and columns that are scrolled over.
    down: u16,
    right: u16,
    /// How far down there is anything, as of the last drawing.
    deepest: u16,
}

impl<'a> View<'a> {
    fn of(report: &'a Report) -> Self {
        Self {
            report,
            section: 0,
            down: 0,
            right: 0,
            deepest: 0,
        }
    }

    fn press(&mut self, key: KeyEvent) -> After {
        let is_interrupt =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if is_interrupt => return After::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return After::Quit,
            KeyCode::Right | KeyCode::Tab => self.turn_to(self.section + 1),
            KeyCode::Left | KeyCode::BackTab => {
                self.turn_to(self.section + self.report.sections.len() - 1);
            }
            KeyCode::Down => self.scroll(1),
            KeyCode::Up => self.scroll(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll(PAGE),
            KeyCode::PageUp => self.scroll(-PAGE),
            KeyCode::Char('>') => self.right = self.right.saturating_add(ASIDE),
            KeyCode::Char('<') => self.right = self.right.saturating_sub(ASIDE),
            _ => {}
        }
        After::Stay
    }

    fn turn_to(&mut self, section: usize) {
        self.section = section % self.report.sections.len();
        (self.down, self.right) = (0, 0);
    }

    fn scroll(&mut self, lines: i16) {
        self.down = self.down.saturating_add_signed(lines).min(self.deepest);
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let rows = [
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ];
        let [title, tabs, body, keys] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(drawn(&self.report.title).bold(), title);
        let names = self.report.sections.iter().map(|section| section.title);
        let names = Tabs::new(names).select(self.section).divider("│");
        frame.render_widget(names.highlight_style(Modifier::REVERSED), tabs);
        self.draw_body(frame, body);
        let style = Style::new().fg(Color::DarkGray);
        frame.render_widget(Span::styled(KEYS, style), keys);
    }

    fn draw_body(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let Some(section) = self.report.sections.get(self.section) else {
            return;
        };
        let inside = area.height.saturating_sub(2);
        let lines = u16::try_from(section.lines.len()).unwrap_or(u16::MAX);
        self.deepest = lines.saturating_sub(inside);
        self.down = self.down.min(self.deepest);
        let text: Vec<_> = section.lines.iter().map(drawn).collect();
        let mut block = Block::bordered();
        if self.deepest > self.down {
            block = block.title_bottom(format!(" {} more below ", self.deepest - self.down));
        }
        let text = Paragraph::new(text).scroll((self.down, self.right));
        frame.render_widget(text.block(block), area);
    }
}

fn drawn(line: &Line) -> Drawn<'_> {
    let style = match line.tone {
        Tone::Heading => Style::new().add_modifier(Modifier::BOLD),
        Tone::Plain => Style::new(),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Warning => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red),
        Tone::Faint => Style::new().fg(Color::DarkGray),
    };
    Drawn::styled(line.text.as_str(), style)
}

const KEYS: &str = " ←/→ tab: section   ↑/↓ space: scroll   </>: sideways   q: quit";
/// Lines that a page key scrolls over.
const PAGE: i16 = 10;
/// Columns that a sideways key scrolls over.
const ASIDE: u16 = 8;

#[cfg(test)]
mod tests;
