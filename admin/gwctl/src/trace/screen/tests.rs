use std::fmt::Write as _;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::report::Report;
use super::super::report::tests::{RETRIED, read};
use super::{After, View};

fn screen(view: &mut View<'_>, width: u16, height: u16) -> String {
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

fn press(view: &mut View<'_>, key: KeyCode) -> After {
    view.press(KeyEvent::new(key, KeyModifiers::NONE))
}

#[test]
fn every_section_has_a_screen() {
    let report = Report::of(&read(RETRIED));
    let mut view = View::of(&report);
    let mut screens = String::new();
    for _ in &report.sections {
        screens.push_str(&screen(&mut view, 100, 16));
        assert_eq!(press(&mut view, KeyCode::Tab), After::Stay);
    }
    assert_eq!(view.section, 0, "the last leads to the first");
    assert_eq!(screens, include_str!("../../../tests/trace/screens.txt"));
}

#[test]
fn scrolling_ends_where_the_text_does() {
    let report = Report::of(&read(RETRIED));
    let mut view = View::of(&report);
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
    let report = Report::of(&read(RETRIED));
    for (width, height) in [(1, 1), (3, 2), (20, 3), (500, 4)] {
        let mut view = View::of(&report);
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
    let report = Report::of(&[]);
    let mut view = View::of(&report);
    assert_eq!(press(&mut view, KeyCode::Char('q')), After::Quit);
    assert_eq!(press(&mut view, KeyCode::Esc), After::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.press(interrupt), After::Quit);
    assert_eq!(press(&mut view, KeyCode::Char('c')), After::Stay);
}
