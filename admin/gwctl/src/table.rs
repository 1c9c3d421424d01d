//! Aligned columns, two spaces apart, as kubectl prints them.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::output::shown;

/// Rows under a heading row.
#[derive(Debug)]
pub(crate) struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn new(heading: [&str; COLUMNS]) -> Self {
        Self {
            rows: vec![heading.map(str::to_owned)],
        }
    }

    /// Adds a row; empty cells are printed as `-`.
    pub(crate) fn row(&mut self, cells: [String; COLUMNS]) {
        let cells = cells.map(|cell| {
            if cell.is_empty() {
                "-".to_owned()
            } else {
                shown(&cell)
            }
        });
        self.rows.push(cells);
    }

    /// Sorts the rows, by the first column first.
    pub(crate) fn sort(&mut self) {
        if let Some((_, rows)) = self.rows.split_first_mut() {
            rows.sort();
        }
    }

    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for line in self.lines() {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    /// The lines, heading first, without trailing spaces.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut widths = [0; COLUMNS];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |row: &[String; COLUMNS]| {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                let _ = write!(line, "{cell:width$}  ");
            }
            line.truncate(line.trim_end().len());
            line
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["TYPE", "NAME"]);
        table.row(["Service".to_owned(), "b".to_owned()]);
        table.row(["Backend".to_owned(), String::new()]);
        table.sort();
        let mut text = Vec::new();
        table.write(&mut text).expect("memory");
        let text = String::from_utf8(text).expect("text");
        assert_eq!(text, "TYPE     NAME\nBackend  -\nService  b\n");
    }
}
