//! A report as Markdown, its plots as files beside it.

use std::fmt::Write as _;

use super::document::{Block, Table, Tone};

/// The text. Plots are expected in the folder `plots` beside it.
pub(crate) fn render(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        // Writing into a String cannot fail.
        let _ = match block {
            Block::Heading(level, words) => {
                writeln!(text, "{} {words}\n", "#".repeat(usize::from(*level)))
            }
            Block::Text(words) => writeln!(text, "{}\n", escape(words)),
            Block::Warning(words) => writeln!(text, "> **Note:** {}\n", escape(words)),
            Block::List(items) => {
                for item in items {
                    let _ = writeln!(text, "- {}", escape(item));
                }
                writeln!(text)
            }
            Block::Table(table) => writeln!(text, "{}", render_table(table)),
            Block::Plot(plot) => writeln!(text, "![{}](plots/{}.svg)\n", plot.alt, plot.name),
        };
    }
    text
}

fn render_table(table: &Table) -> String {
    let mut text = format!("| {} |\n|", table.columns.join(" | "));
    for column in 0..table.columns.len() {
        text.push_str(if column < table.words {
            "---|"
        } else {
            "---:|"
        });
    }
    text.push('\n');
    for row in &table.rows {
        let ours = row.tone == Tone::Ours;
        let cells = row.cells.iter().enumerate().map(|(column, cell)| {
            let cell = escape(cell).replace('|', "\\|");
            if ours && column == 0 {
                format!("**{cell}**")
            } else {
                cell
            }
        });
        let _ = writeln!(text, "| {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    text
}

/// The text of an error message must not become markup.
fn escape(text: &str) -> String {
    text.replace('<', "&lt;").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_plots_are_markdown() {
        let mut table = Table::new(&["peer", "CPU"], 1);
        table.push(Tone::Ours, vec!["gateway".into(), "1|2".into()]);
        let text = render(&[Block::Heading(2, "S1".into()), Block::Table(table)]);
        assert_eq!(
            text,
            "## S1\n\n| peer | CPU |\n|---|---:|\n| **gateway** | 1\\|2 |\n\n"
        );
    }
}
