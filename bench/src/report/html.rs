//! A report as one self-contained HTML page.

use std::fmt::Write as _;

use super::document::{Block, Table, Tone};

pub(crate) fn render(title: &str, blocks: &[Block]) -> String {
    let mut body = String::new();
    let mut contents = String::new();
    for block in blocks {
        // Writing into a String cannot fail.
        let _ = match block {
            Block::Heading(1, words) => writeln!(body, "<h1>{}</h1>", escape(words)),
            Block::Heading(level, words) => {
                let (anchor, words) = (anchor(words), escape(words));
                if *level == 2 {
                    let _ = write!(contents, "<a href=\"#{anchor}\">{words}</a>");
                }
                writeln!(body, "<h{level} id=\"{anchor}\">{words}</h{level}>")
            }
            Block::Text(words) => writeln!(body, "<p>{}</p>", escape(words)),
            Block::Warning(words) => writeln!(body, "<p class=\"warning\">{}</p>", escape(words)),
            Block::List(items) => {
                let items = cells("li", items, 0);
                writeln!(body, "<ul>{items}</ul>")
            }
            Block::Table(table) => writeln!(body, "{}", render_table(table)),
            Block::Plot(plot) => writeln!(
                body,
                "<figure role=\"img\" aria-label=\"{}\">{}</figure>",
                escape(&plot.alt),
                plot.svg
            ),
        };
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>{}</style>\n<nav>{contents}</nav>\n<main>\n{body}</main>\n</html>\n",
        escape(title),
        include_str!("page.css"),
    )
}

fn render_table(table: &Table) -> String {
    let names = cells("th", &table.columns, table.words);
    let mut text = format!("<div class=\"scroll\"><table><thead><tr>{names}</tr></thead><tbody>");
    for row in &table.rows {
        let class = match row.tone {
            Tone::Plain => "",
            Tone::Ours => " class=\"ours\"",
            Tone::Floor => " class=\"floor\"",
            Tone::Good => " class=\"good\"",
            Tone::Bad => " class=\"bad\"",
        };
        let cells = cells("td", &row.cells, table.words);
        let _ = write!(text, "<tr{class}>{cells}</tr>");
    }
    text.push_str("</tbody></table></div>");
    text
}

/// Each of `items` as an element of this name; the first few are words.
fn cells(name: &str, items: &[String], words: usize) -> String {
    items
        .iter()
        .enumerate()
        .fold(String::new(), |mut text, (column, item)| {
            let class = if column < words {
                " class=\"words\""
            } else {
                ""
            };
            let _ = write!(text, "<{name}{class}>{}</{name}>", escape(item));
            text
        })
}

/// A heading's own address.
fn anchor(words: &str) -> String {
    let lower = words.to_lowercase();
    lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty())
        .fold(String::new(), |mut anchor, word| {
            if !anchor.is_empty() {
                anchor.push('-');
            }
            anchor.push_str(word);
            anchor
        })
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_escaped() {
        let page = render("<t>", &[Block::Warning("<script>\"x\" & y".into())]);
        assert!(page.contains("&lt;script&gt;&quot;x&quot; &amp; y"));
        assert!(page.contains("<title>&lt;t&gt;</title>"));
    }

    #[test]
    fn the_page_has_no_external_resources() {
        let page = render("t", &[Block::Heading(2, "S1: a".into())]);
        assert!(page.contains("<a href=\"#s1-a\">"));
        assert!(!page.contains("src=") && !page.contains("http://") && !page.contains("https://"));
    }
}
