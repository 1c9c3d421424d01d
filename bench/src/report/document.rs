//! The content of a report, independent of its format: blocks of text, tables and plots.

/// A piece of a report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    /// A heading of this level, from 1.
    Heading(u8, String),
    Text(String),
    /// A paragraph that must not be overlooked.
    Warning(String),
    List(Vec<String>),
    Table(Table),
    Plot(Plot),
}

/// Rows of text under a row of names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table {
    /// Names of the columns.
    pub(crate) columns: Vec<String>,
    /// How many columns, from the left, hold words; the others hold numbers.
    pub(crate) words: usize,
    pub(crate) rows: Vec<TableRow>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableRow {
    /// Cells, one per column.
    pub(crate) cells: Vec<String>,
    /// What the row means to a reader.
    pub(crate) tone: Tone,
}

/// The meaning of a row, shown by colour where possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Ours,
    Floor,
    Good,
    Bad,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plot {
    /// File name without extension.
    pub(crate) name: String,
    /// Text in place of the image (`alt`).
    pub(crate) alt: String,
    pub(crate) svg: String,
}

impl Table {
    /// A table without rows; the first `words` columns contain words.
    pub(crate) fn new(columns: &[&str], words: usize) -> Self {
        let columns = columns.iter().map(|&c| c.to_owned()).collect();
        Self {
            columns,
            words,
            rows: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, tone: Tone, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "one cell per column");
        self.rows.push(TableRow { cells, tone });
    }

    /// Without the columns in which no row has anything to say.
    pub(crate) fn without_empty_columns(mut self) -> Self {
        let says = |column: usize| {
            self.rows
                .iter()
                .any(|row| row.cells.get(column).is_some_and(|cell| cell != NO_VALUE))
        };
        let keep: Vec<bool> = (0..self.columns.len()).map(says).collect();
        let kept = |list: Vec<String>| {
            let pairs = list.into_iter().zip(&keep);
            pairs
                .filter(|(_, keep)| **keep)
                .map(|(cell, _)| cell)
                .collect::<Vec<_>>()
        };
        self.columns = kept(self.columns);
        for row in &mut self.rows {
            row.cells = kept(std::mem::take(&mut row.cells));
        }
        self
    }
}

/// A cell without a value.
pub(crate) const NO_VALUE: &str = "–";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_columns_are_removed() {
        let mut table = Table::new(&["peer", "p99", "rss"], 1);
        table.push(Tone::Plain, vec!["a".into(), NO_VALUE.into(), "1".into()]);
        table.push(
            Tone::Plain,
            vec!["b".into(), NO_VALUE.into(), NO_VALUE.into()],
        );
        let table = table.without_empty_columns();
        assert_eq!(table.columns, ["peer", "rss"]);
        assert_eq!(table.rows[1].cells, ["b", NO_VALUE]);
    }
}
