//! A trace in a terminal: one section at a time, drawn as it comes, and keys to go about in it.
//!
//! What is drawn depends on [`View`] alone; [`show`] has the terminal and its keys. The trace is
//! followed on a thread of its own, so that a key is answered whatever the gateway does.

use std::io;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line as Drawn, Span};
use ratatui::widgets::{Block, Paragraph, Tabs};

use super::event::Seen;
use super::follow::{Sink, Told};
use super::report::{Line, Report, Tone};

/// Shows what `follow` tells, until the user has seen enough. Why there may be more to tell.
///
/// # Errors
/// There is nothing to show, or the terminal fails.
pub(super) fn show(
    follow: impl FnOnce(Sink<'_>) -> Result<Told> + Send + 'static,
) -> Result<Option<String>> {
    let (sender, events) = mpsc::channel();
    let following = thread::spawn(move || {
        follow(&mut |_, seen| {
            let sent = sender.send(seen.clone());
            sent.context("the user has left")
        })
    });
    // A gateway that cannot be asked is an error on the terminal as it is.
    let Ok(first) = events.recv() else {
        return Ok(end(following)?.trouble);
    };
    let mut view = View::of(vec![first]);
    let mut terminal = ratatui::try_init().context("the terminal cannot be drawn on")?;
    let shown = run(&mut terminal, &mut view, &events);
    ratatui::restore();
    shown.context("the terminal failed")?;
    if view.state == State::Following {
        // The user has left before its end, and has seen what there was.
        return Ok(None);
    }
    Ok(end(following)?.trouble)
}

fn end(following: JoinHandle<Result<Told>>) -> Result<Told> {
    let ended = following.join();
    ended.unwrap_or_else(|_| {
        Err(anyhow!(
            "the trace panicked; please report the message above"
        ))
    })
}

/// Draws whenever there is something new, until the user leaves.
fn run(terminal: &mut DefaultTerminal, view: &mut View, events: &Receiver<Seen>) -> io::Result<()> {
    loop {
        terminal.draw(|frame| view.draw(frame))?;
        while !view.take(events) {
            if !event::poll(LOOK)? {
                continue;
            }
            // Any other event, such as a new size, is a reason to draw.
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && view.press(key) == After::Quit
            {
                return Ok(());
            }
            break;
        }
    }
}

/// Between two looks for new events: 50 ms, which the eye takes for at once.
const LOOK: Duration = Duration::from_millis(50);

/// What a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Stay,
    Quit,
}

/// Whether there is more to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Following,
    Over,
}

/// What is shown of a trace.
struct View {
    events: Vec<Seen>,
    report: Report,
    state: State,
    section: usize,
    /// Lines and columns that are scrolled over.
    down: u16,
    right: u16,
    /// How far down there is anything, as of the last drawing.
    deepest: u16,
}

impl View {
    fn of(events: Vec<Seen>) -> Self {
        Self {
            report: Report::of(&events),
            events,
            state: State::Following,
            section: 0,
            down: 0,
            right: 0,
            deepest: 0,
        }
    }

    /// Takes what has come meanwhile. Whether it is another picture now.
    fn take(&mut self, events: &Receiver<Seen>) -> bool {
        let (known, state) = (self.events.len(), self.state);
        loop {
            match events.try_recv() {
                Ok(seen) => self.events.push(seen),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.state = State::Over;
                    break;
                }
            }
        }
        let is_more = self.events.len() > known;
        if is_more {
            self.report = Report::of(&self.events);
        }
        is_more || self.state != state
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
        let [keys, state] =
            Layout::horizontal([Constraint::Min(0), Constraint::Length(STATE)]).areas(keys);
        frame.render_widget(Span::styled(KEYS, style), keys);
        let said = match self.state {
            State::Following => "more to come …",
            State::Over => "",
        };
        frame.render_widget(Span::styled(said, Color::Yellow), state);
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
/// Columns for what is said of the trace as such.
const STATE: u16 = 16;
/// Lines that a page key scrolls over.
const PAGE: i16 = 10;
/// Columns that a sideways key scrolls over.
const ASIDE: u16 = 8;

#[cfg(test)]
mod tests;
