use std::fmt::Write as _;
use std::sync::mpsc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::report::tests::{RETRIED, read};
use super::{After, State, View};

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

/// A trace that was told whole.
fn over() -> View {
    View {
        state: State::Over,
        ..View::of(read(RETRIED))
    }
}

fn press(view: &mut View, key: KeyCode) -> After {
    view.press(KeyEvent::new(key, KeyModifiers::NONE))
}

#[test]
fn every_section_has_a_screen() {
    let mut view = over();
    let mut screens = String::new();
    for _ in 0..view.report.sections.len() {
        screens.push_str(&screen(&mut view, 100, 16));
        assert_eq!(press(&mut view, KeyCode::Tab), After::Stay);
    }
    assert_eq!(view.section, 0, "the last leads to the first");
    assert_eq!(screens, include_str!("../../../tests/trace/screens.txt"));
}

#[test]
fn scrolling_ends_where_the_text_does() {
    let mut view = over();
    press(&mut view, KeyCode::Left);
    let top = screen(&mut view, 60, 10);
    assert!(top.contains("15 more below"), "{top}");
    for _ in 0..9 {
        press(&mut view, KeyCode::PageDown);
    }
    let bottom = screen(&mut view, 60, 10);
    assert!(bottom.contains("request over"), "{bottom}");
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
fn no_terminal_is_too_small() {
    for (width, height) in [(1, 1), (3, 2), (20, 3), (500, 4)] {
        let mut view = over();
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
fn the_user_can_leave() {
    let mut view = View::of(Vec::new());
    assert_eq!(press(&mut view, KeyCode::Char('q')), After::Quit);
    assert_eq!(press(&mut view, KeyCode::Esc), After::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.press(interrupt), After::Quit);
    assert_eq!(press(&mut view, KeyCode::Char('c')), After::Stay);
}

#[test]
fn it_is_drawn_as_it_comes() {
    let (sender, events) = mpsc::channel();
    let mut told = read(RETRIED).into_iter();
    let mut view = View::of(told.by_ref().take(2).collect());
    assert!(!view.take(&events), "nothing has come");
    let begun = screen(&mut view, 100, 16);
    assert!(
        begun.contains("not over") && begun.contains("more to come"),
        "{begun}"
    );
    assert!(begun.contains("route     not chosen yet"), "{begun}");
    // Where the user is, is where the user stays.
    press(&mut view, KeyCode::Tab);
    told.for_each(|seen| sender.send(seen).expect("the view is there"));
    assert!(view.take(&events));
    assert_eq!(view.section, 1);
    assert!(screen(&mut view, 100, 16).contains("more to come"));
    drop(sender);
    assert!(view.take(&events), "its end is news");
    assert!(!view.take(&events));
    press(&mut view, KeyCode::BackTab);
    let whole = screen(&mut view, 100, 16);
    assert!(
        include_str!("../../../tests/trace/screens.txt").starts_with(&whole),
        "{whole}"
    );
}
