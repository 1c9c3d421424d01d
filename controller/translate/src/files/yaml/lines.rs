//! The lines of a document's fields, in few bytes: they are kept as long as its objects, and only
//! used for findings.

use std::collections::HashSet;
use std::sync::Arc;

use super::spans::{SpanContent, Spans};
use crate::files::path::{FieldPath, PathStep};

/// The lines of a value and of all in it.
///
/// A value is its line and its shape; the shape is twice the number of entries, and one more for a
/// mapping. The entries follow, those of a mapping after the length and bytes of their key. Numbers
/// have seven bits a byte, the low ones first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lines(Arc<[u8]>);

/// The lines of earlier values: many documents have the same fields on the same lines, and share
/// them.
#[derive(Debug, Default)]
pub(crate) struct KnownLines(HashSet<Arc<[u8]>>);

impl KnownLines {
    /// The lines of a value, shared with an earlier one that has the same.
    pub(crate) fn of(&mut self, spans: &Spans) -> Lines {
        let mut bytes = Vec::new();
        write(spans, &mut bytes);
        if let Some(known) = self.0.get(&*bytes) {
            return Lines(Arc::clone(known));
        }
        if self.0.len() >= MAX_KNOWN_LINES {
            self.0.clear();
        }
        let lines: Arc<[u8]> = bytes.into();
        self.0.insert(Arc::clone(&lines));
        Lines(lines)
    }
}

/// So many are known, to be shared by later documents: those that differ cost no more than this.
const MAX_KNOWN_LINES: usize = 256;

impl Lines {
    /// The line of `path`, or of the nearest written field above it.
    pub(crate) fn nearest(&self, path: &FieldPath) -> u32 {
        let mut rest = Remainder(&self.0);
        let mut line = rest.number();
        for step in path.steps() {
            if !rest.enter(step) {
                break;
            }
            line = rest.number();
        }
        u32::try_from(line).unwrap_or(u32::MAX)
    }
}

fn write(spans: &Spans, bytes: &mut Vec<u8>) {
    write_number(spans.at.line as usize, bytes);
    match &spans.inside {
        SpanContent::Scalar => write_number(0, bytes),
        SpanContent::Fields(fields) => {
            write_number(fields.len() * 2 + 1, bytes);
            for (key, value) in fields {
                write_key(key, bytes);
                write(value, bytes);
            }
        }
        SpanContent::Items(items) => {
            write_number(items.len() * 2, bytes);
            for item in items {
                write(item, bytes);
            }
        }
    }
}

/// A well-known key is its position in the list, and an odd number tells the two apart.
fn write_key(key: &str, bytes: &mut Vec<u8>) {
    if let Some(position) = KNOWN_KEYS.iter().position(|known| *known == key) {
        write_number(position * 2 + 1, bytes);
    } else {
        write_number(key.len() * 2, bytes);
        bytes.extend_from_slice(key.as_bytes());
    }
}

fn write_number(mut number: usize, bytes: &mut Vec<u8>) {
    while number > 0x7f {
        let [low, ..] = number.to_le_bytes();
        bytes.push(low | 0x80);
        number >>= 7;
    }
    let [low, ..] = number.to_le_bytes();
    bytes.push(low);
}

struct Remainder<'a>(&'a [u8]);

impl<'a> Remainder<'a> {
    fn number(&mut self) -> usize {
        let mut number = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let Some((byte, rest)) = self.0.split_first() else {
                break;
            };
            self.0 = rest;
            number |= usize::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
        }
        number
    }

    fn key(&mut self) -> &'a [u8] {
        let number = self.number();
        if number % 2 == 1 {
            return KNOWN_KEYS.get(number / 2).map_or(b"", |key| key.as_bytes());
        }
        let length = (number / 2).min(self.0.len());
        let (key, rest) = self.0.split_at(length);
        self.0 = rest;
        key
    }

    /// From the shape of a value to the entry at a step; returns whether it exists.
    fn enter(&mut self, step: &PathStep) -> bool {
        let shape = self.number();
        for index in 0..shape / 2 {
            let is_listed = if shape % 2 == 1 {
                let key = self.key();
                matches!(step, PathStep::Field(name) if name.as_bytes() == key)
            } else {
                *step == PathStep::Item(index)
            };
            if is_listed {
                return true;
            }
            self.skip();
        }
        false
    }

    /// Skips a value and everything in it.
    fn skip(&mut self) {
        self.number();
        let shape = self.number();
        for _ in 0..shape / 2 {
            if shape % 2 == 1 {
                self.key();
            }
            self.skip();
        }
    }
}

/// The keys of most objects, so that these need no text for them.
const KNOWN_KEYS: [&str; 35] = [
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "spec",
    "parentRefs",
    "sectionName",
    "hostnames",
    "rules",
    "matches",
    "path",
    "type",
    "value",
    "method",
    "headers",
    "filters",
    "backendRefs",
    "group",
    "port",
    "weight",
    "timeouts",
    "clusterIP",
    "ports",
    "protocol",
    "targetPort",
    "addressType",
    "endpoints",
    "addresses",
    "conditions",
    "ready",
    "nodeName",
    "kubernetes.io/service-name",
];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::KnownLines;
    use crate::files::path::FieldPath;
    use crate::files::yaml::compose;

    #[test]
    fn equal_lines_are_shared() {
        let mut known = KnownLines::default();
        let mut lines = |text: &str| {
            let composed = compose(text).expect("it is YAML").expect("a value");
            known.of(&composed.spans)
        };
        let first = lines("a: 1\nb: 2");
        assert!(Arc::ptr_eq(&first.0, &lines("a: x\nb: y").0));
        assert_ne!(first, lines("a: 1\n\nb: 2"));
    }

    #[test]
    fn every_field_is_on_the_line_of_its_span() {
        let padding = "\n".repeat(300);
        let text = format!(
            "a: 1\nb:\n  - x\n  - {{c: 2,\n     d: []}}\n  -\n    - {{}}\n    - e\n{padding}f:\n  {}: 3\nspec:\n  name: x\n",
            "g".repeat(200)
        );
        let composed = compose(&text).expect("it is YAML").expect("a value");
        let lines = KnownLines::default().of(&composed.spans);
        let long = format!("f.{}", "g".repeat(200));
        for path in [
            "",
            "a",
            "a.b",
            "b",
            "b[0]",
            "b[1]",
            "b[1].c",
            "b[1].d",
            "b[1].d[0]",
            "b[2][0]",
            "b[2][1]",
            "b[2][2]",
            "b[3]",
            "f",
            &long,
            "spec",
            "spec.name",
            "spec.path",
            "h",
        ] {
            let path = FieldPath::parse(path);
            assert_eq!(
                lines.nearest(&path),
                composed.spans.nearest(&path).line,
                "{path}"
            );
        }
    }
}
