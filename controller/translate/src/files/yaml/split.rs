//! Splits a file into documents before parsing, so that a broken one does not affect others. YAML
//! makes that safe: `---` and `...` at the start of a line end a document even inside a scalar
//! (YAML 1.2.2, 9.1.2).

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk<'a> {
    /// Lines of the file before it.
    pub(crate) lines_before: u32,
    /// The text, its `---` line included.
    pub(crate) text: &'a str,
}

/// The documents of a file, in order. Directives and comments go with the document they precede.
pub(crate) fn split(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let mut open = OpenDocument::default();
    let mut offset = 0;
    for (line_number, line) in (0u32..).zip(text.split_inclusive('\n')) {
        if is_marker(line, "---") && open.has_content {
            open.close(text, offset, line_number, &mut chunks);
        }
        open.has_content |= !is_preamble(line);
        offset += line.len();
        if is_marker(line, "...") {
            open.close(text, offset, line_number + 1, &mut chunks);
        }
    }
    open.close(text, text.len(), 0, &mut chunks);
    chunks
}

#[derive(Default)]
struct OpenDocument {
    start: usize,
    lines_before: u32,
    has_content: bool,
}

impl OpenDocument {
    fn close<'a>(&mut self, text: &'a str, end: usize, lines: u32, chunks: &mut Vec<Chunk<'a>>) {
        if let Some(body) = text.get(self.start..end).filter(|_| self.has_content) {
            chunks.push(Chunk {
                lines_before: self.lines_before,
                text: body,
            });
        }
        *self = Self {
            start: end,
            lines_before: lines,
            has_content: false,
        };
    }
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

fn is_preamble(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with(['#', '%'])
}

#[cfg(test)]
mod tests {
    use super::split;

    fn parts(text: &str) -> Vec<(u32, &str)> {
        let chunks = split(text).into_iter();
        chunks
            .map(|chunk| (chunk.lines_before, chunk.text.trim()))
            .collect()
    }

    #[test]
    fn documents_start_at_their_marker() {
        assert_eq!(
            parts("a: 1\n---\nb: 2\n--- # c\nc: |\n  ---\n"),
            [(0, "a: 1"), (1, "---\nb: 2"), (3, "--- # c\nc: |\n  ---")]
        );
    }

    #[test]
    fn directives_and_comments_belong_to_the_following_document() {
        assert_eq!(
            parts("# head\n%YAML 1.2\n---\na: 1\n...\n# tail\n%YAML 1.2\n---\nb: 2"),
            [
                (0, "# head\n%YAML 1.2\n---\na: 1\n..."),
                (5, "# tail\n%YAML 1.2\n---\nb: 2")
            ]
        );
    }

    #[test]
    fn empty_parts_are_not_documents() {
        assert!(parts("").is_empty());
        assert!(parts("# only a comment\n\n").is_empty());
        assert_eq!(parts("---\n---\n"), [(0, "---"), (1, "---")]);
    }
}
