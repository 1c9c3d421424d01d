use std::fmt::Write as _;
use std::sync::mpsc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::report::tests::{RETRIED, parse};
use super::{Action, State, View};

fn screen(view: &mut View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| view.draw(frame)).expect("memory");
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(width));
    let rows = rows.map(|row| row.iter().map(Cell::symbol).collect::<String>());
    rows.fold(String::new(), |mut text, row| {
        let _ = writeln!(text, "{}", row.trim_end());
        text
    })
}

/// The view of a complete trace.
fn finished() -> View {
    View {
        state: State::Finished,
        ..View::new(parse(RETRIED))
    }
}

fn press(view: &mut View, key: KeyCode) -> Action {
    view.press(KeyEvent::new(key, KeyModifiers::NONE))
}

#[test]
fn every_section_is_rendered() {
    let mut view = finished();
    let mut screens = String::new();
    for _ in 0..view.report.sections.len() {
        screens.push_str(&screen(&mut view, 100, 16));
        assert_eq!(press(&mut view, KeyCode::Tab), Action::Continue);
    }
    assert_eq!(view.section, 0, "the first follows the last");
    assert_eq!(screens, include_str!("../../../tests/trace/screens.txt"));
}

#[test]
fn scrolling_stops_at_the_end_of_the_text() {
    let mut view = finished();
    press(&mut view, KeyCode::Left);
    let top = screen(&mut view, 60, 10);
    assert!(top.contains("15 more below"), "{top}");
    for _ in 0..9 {
        press(&mut view, KeyCode::PageDown);
    }
    let bottom = screen(&mut view, 60, 10);
    assert!(bottom.contains("request fini"), "{bottom}");
    assert!(!bottom.contains("more below"), "{bottom}");
    press(&mut view, KeyCode::Char('>'));
    assert_ne!(screen(&mut view, 60, 10), bottom);
    press(&mut view, KeyCode::Char('<'));
    for _ in 0..9 {
        press(&mut view, KeyCode::PageUp);
    }
    assert_eq!(screen(&mut view, 60, 10), top);
}

#[test]
fn every_terminal_size_is_supported() {
    for (width, height) in [(1, 1), (3, 2), (20, 3), (500, 4)] {
        let mut view = finished();
        for key in [
            KeyCode::Tab,
            KeyCode::Down,
            KeyCode::PageDown,
            KeyCode::BackTab,
        ] {
            press(&mut view, key);
            screen(&mut view, width, height);
        }
    }
}

#[test]
fn the_user_can_quit() {
    let mut view = View::new(Vec::new());
    assert_eq!(press(&mut view, KeyCode::Char('q')), Action::Quit);
    assert_eq!(press(&mut view, KeyCode::Esc), Action::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.press(interrupt), Action::Quit);
    assert_eq!(press(&mut view, KeyCode::Char('c')), Action::Continue);
}

#[test]
fn events_are_drawn_as_they_arrive() {
    let (sender, events) = mpsc::channel();
    let mut trace = parse(RETRIED).into_iter();
    let mut view = View::new(trace.by_ref().take(2).collect());
    assert!(!view.receive(&events), "nothing has arrived");
    let begun = screen(&mut view, 100, 16);
    assert!(
        begun.contains("in progress") && begun.contains("receiving"),
        "{begun}"
    );
    assert!(begun.contains("route     not selected yet"), "{begun}");
    // New events do not change the visible section.
    press(&mut view, KeyCode::Tab);
    trace.for_each(|event| sender.send(event).expect("the receiver exists"));
    assert!(view.receive(&events));
    assert_eq!(view.section, 1);
    assert!(screen(&mut view, 100, 16).contains("receiving"));
    drop(sender);
    assert!(view.receive(&events), "the end needs a redraw");
    assert!(!view.receive(&events));
    press(&mut view, KeyCode::BackTab);
    let whole = screen(&mut view, 100, 16);
    assert!(
        include_str!("../../../tests/trace/screens.txt").starts_with(&whole),
        "{whole}"
    );
}
