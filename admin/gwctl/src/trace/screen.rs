//! The terminal UI of a trace: one section at a time, updated as events arrive.
//!
//! Drawing depends on [`View`] only; [`show`] owns the terminal and reads keys. The trace is followed
//! on a thread of its own, so that the UI responds whatever the gateway does.

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
use ratatui::text::{Line as StyledLine, Span};
use ratatui::widgets::{Block, Paragraph, Tabs};

use super::event::TraceEvent;
use super::follow::{Sink, Trace};
use super::report::{Line, Report, Tone};

/// Shows the trace that `follow` yields, until the user quits. Returns why it may be incomplete.
///
/// # Errors
/// There is no trace, or the terminal cannot be used.
pub(super) fn show(
    follow: impl FnOnce(Sink<'_>) -> Result<Trace> + Send + 'static,
) -> Result<Option<String>> {
    let (sender, events) = mpsc::channel();
    let follower = thread::spawn(move || {
        follow(&mut |_, event| {
            let sent = sender.send(event.clone());
            sent.context("the user has quit")
        })
    });
    // Where there is no event, the error is printed without switching to the UI.
    let Ok(first) = events.recv() else {
        return Ok(join(follower)?.incomplete);
    };
    let mut view = View::new(vec![first]);
    let mut terminal = ratatui::try_init().context("cannot initialize the terminal")?;
    let shown = run(&mut terminal, &mut view, &events);
    ratatui::restore();
    shown.context("terminal error")?;
    if view.state == State::Streaming {
        // The user quit before the end of the trace: it is incomplete by choice.
        return Ok(None);
    }
    Ok(join(follower)?.incomplete)
}

fn join(follower: JoinHandle<Result<Trace>>) -> Result<Trace> {
    let joined = follower.join();
    joined.unwrap_or_else(|_| {
        Err(anyhow!(
            "the trace panicked; please report the message above"
        ))
    })
}

/// Redraws on every change, until the user quits.
fn run(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    events: &Receiver<TraceEvent>,
) -> io::Result<()> {
    loop {
        terminal.draw(|frame| view.draw(frame))?;
        while !view.receive(events) {
            if !event::poll(POLL_INTERVAL)? {
                continue;
            }
            // Any other event, such as a resize, needs a redraw.
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && view.press(key) == Action::Quit
            {
                return Ok(());
            }
            break;
        }
    }
}

/// Interval of checking for new events: 50 ms, which is perceived as immediate.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Continue,
    Quit,
}

/// Whether more events may arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Streaming,
    Finished,
}

/// The state of the UI.
struct View {
    events: Vec<TraceEvent>,
    report: Report,
    state: State,
    /// Index of the visible section.
    section: usize,
    /// Vertical scroll offset, in lines.
    down: u16,
    /// Horizontal scroll offset, in columns.
    right: u16,
    /// Largest vertical offset, as of the last drawing.
    max_down: u16,
}

impl View {
    fn new(events: Vec<TraceEvent>) -> Self {
        Self {
            report: Report::new(&events),
            events,
            state: State::Streaming,
            section: 0,
            down: 0,
            right: 0,
            max_down: 0,
        }
    }

    /// Adds the events that have arrived. Returns whether a redraw is needed.
    fn receive(&mut self, events: &Receiver<TraceEvent>) -> bool {
        let (known, state) = (self.events.len(), self.state);
        loop {
            match events.try_recv() {
                Ok(event) => self.events.push(event),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.state = State::Finished;
                    break;
                }
            }
        }
        let has_grown = self.events.len() > known;
        if has_grown {
            self.report = Report::new(&self.events);
        }
        has_grown || self.state != state
    }

    fn press(&mut self, key: KeyEvent) -> Action {
        let is_interrupt =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if is_interrupt => return Action::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Right | KeyCode::Tab => self.select_section(self.section + 1),
            KeyCode::Left | KeyCode::BackTab => {
                self.select_section(self.section + self.report.sections.len() - 1);
            }
            KeyCode::Down => self.scroll(1),
            KeyCode::Up => self.scroll(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll(PAGE_LINES),
            KeyCode::PageUp => self.scroll(-PAGE_LINES),
            KeyCode::Char('>') => self.right = self.right.saturating_add(SCROLL_COLUMNS),
            KeyCode::Char('<') => self.right = self.right.saturating_sub(SCROLL_COLUMNS),
            _ => {}
        }
        Action::Continue
    }

    fn select_section(&mut self, section: usize) {
        self.section = section % self.report.sections.len();
        (self.down, self.right) = (0, 0);
    }

    fn scroll(&mut self, lines: i16) {
        self.down = self.down.saturating_add_signed(lines).min(self.max_down);
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let rows = [
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ];
        let [title, tabs, body, keys] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(styled(&self.report.title).bold(), title);
        let names = self.report.sections.iter().map(|section| section.title);
        let names = Tabs::new(names).select(self.section).divider("│");
        frame.render_widget(names.highlight_style(Modifier::REVERSED), tabs);
        self.draw_body(frame, body);
        let style = Style::new().fg(Color::DarkGray);
        let [keys, state] =
            Layout::horizontal([Constraint::Min(0), Constraint::Length(STATE_COLUMNS)]).areas(keys);
        frame.render_widget(Span::styled(KEYS, style), keys);
        let text = match self.state {
            State::Streaming => "receiving …",
            State::Finished => "",
        };
        frame.render_widget(Span::styled(text, Color::Yellow), state);
    }

    fn draw_body(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let Some(section) = self.report.sections.get(self.section) else {
            return;
        };
        let inside = area.height.saturating_sub(2);
        let lines = u16::try_from(section.lines.len()).unwrap_or(u16::MAX);
        self.max_down = lines.saturating_sub(inside);
        self.down = self.down.min(self.max_down);
        let text: Vec<_> = section.lines.iter().map(styled).collect();
        let mut block = Block::bordered();
        if self.max_down > self.down {
            block = block.title_bottom(format!(" {} more below ", self.max_down - self.down));
        }
        let text = Paragraph::new(text).scroll((self.down, self.right));
        frame.render_widget(text.block(block), area);
    }
}

fn styled(line: &Line) -> StyledLine<'_> {
    let style = match line.tone {
        Tone::Heading => Style::new().add_modifier(Modifier::BOLD),
        Tone::Plain => Style::new(),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Warning => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red),
        Tone::Dimmed => Style::new().fg(Color::DarkGray),
    };
    StyledLine::styled(line.text.as_str(), style)
}

const KEYS: &str = " ←/→ tab: section   ↑/↓ space: scroll   </>: sideways   q: quit";
/// Width of the trace's state, in columns.
const STATE_COLUMNS: u16 = 16;
/// Lines that a page key scrolls.
const PAGE_LINES: i16 = 10;
/// Columns that `<` and `>` scroll.
const SCROLL_COLUMNS: u16 = 8;

#[cfg(test)]
mod tests;
