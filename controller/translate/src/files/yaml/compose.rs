//! Composes a parser's events into a value and its spans.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput, Tag};
use serde_json::{Map, Value};

use super::scalar;
use super::spans::{Position, SpanContent, Spans};
use crate::files::path::{FieldPath, PathStep};

#[derive(Debug)]
pub(crate) struct Composed {
    pub(crate) value: Value,
    pub(crate) spans: Spans,
    /// Legal YAML that is probably a mistake.
    pub(crate) notes: Vec<YamlRemark>,
}

/// A remark on a place of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct YamlRemark {
    pub(crate) at: Position,
    pub(crate) path: FieldPath,
    pub(crate) text: String,
}

/// Composes the document in `text`; `None` if it has only comments.
///
/// # Errors
///
/// The text is not YAML, has a duplicate key, or its aliases expand to too much.
pub(crate) fn compose(text: &str) -> Result<Option<Composed>, YamlRemark> {
    let mut composer = Composer {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        copied: 0,
        path: FieldPath::default(),
        notes: Vec::new(),
    };
    loop {
        match composer.next()? {
            (Event::StreamStart | Event::DocumentStart(_), _) => {}
            (Event::StreamEnd, _) => return Ok(None),
            (event, at) => {
                let node = composer.node(event, at)?;
                composer.end_of_document()?;
                return Ok((!node.value.is_null()).then_some(Composed {
                    value: node.value,
                    spans: node.spans,
                    notes: composer.notes,
                }));
            }
        }
    }
}

struct Composer<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    /// Approximate bytes copied by aliases.
    copied: usize,
    path: FieldPath,
    notes: Vec<YamlRemark>,
}

#[derive(Clone)]
struct Node {
    value: Value,
    spans: Spans,
    /// Approximate size of a copy.
    weight: usize,
}

impl<'a> Composer<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Position), YamlRemark> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, position(span.start))),
            Some(Err(error)) => Err(self.not_yaml(&error)),
            None => Ok((Event::StreamEnd, Position { line: 1, column: 1 })),
        }
    }

    fn node(&mut self, event: Event<'a>, at: Position) -> Result<Node, YamlRemark> {
        if self.path.steps().len() > MAX_DEPTH {
            return Err(self.refusal(at, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let (anchor, node) = match event {
            Event::Alias(anchor) => return self.alias(anchor, at),
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.scalar(&text, style, tag.as_deref(), at)?;
                let weight = NODE_WEIGHT + text.len();
                (anchor, Node::new(value, at, SpanContent::Scalar, weight))
            }
            Event::SequenceStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), at)?;
                (anchor, self.sequence(at)?)
            }
            Event::MappingStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), at)?;
                (anchor, self.mapping(at)?)
            }
            _ => return Err(self.refusal(at, "the document ends too early".to_owned())),
        };
        if anchor != 0 {
            self.count_copy(node.weight, at)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<Node, YamlRemark> {
        let weight = self.anchors.get(&anchor).map_or(0, |node| node.weight);
        self.count_copy(weight, at)?;
        match self.anchors.get(&anchor) {
            Some(node) => {
                let mut node = node.clone();
                node.spans.at = at;
                Ok(node)
            }
            None => Err(self.refusal(at, "the alias is inside its own anchor".to_owned())),
        }
    }

    fn sequence(&mut self, at: Position) -> Result<Node, YamlRemark> {
        let (mut items, mut spans, mut weight) = (Vec::new(), Vec::new(), NODE_WEIGHT);
        loop {
            let (event, item_at) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Node::new(
                    Value::Array(items),
                    at,
                    SpanContent::Items(spans),
                    weight,
                ));
            }
            self.path.push(PathStep::Item(items.len()));
            let node = self.node(event, item_at)?;
            self.path.pop();
            weight += node.weight;
            items.push(node.value);
            spans.push(node.spans);
        }
    }

    fn mapping(&mut self, at: Position) -> Result<Node, YamlRemark> {
        let mut mapping = Mapping::default();
        loop {
            let (key, key_at, mergeable) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(mapping.finish(at)),
                (Event::Scalar(key, style, _, _), key_at) => {
                    let plain = style == ScalarStyle::Plain;
                    let mergeable = plain && key == "<<";
                    self.warn_of_kubectl_difference(&key, plain, key_at);
                    (key.into_owned(), key_at, mergeable)
                }
                (_, key_at) => {
                    return Err(self.refusal(key_at, "a key must be plain text".to_owned()));
                }
            };
            let (event, value_at) = self.next()?;
            self.path.push(PathStep::Field(key.clone().into()));
            let node = self.node(event, value_at)?;
            if mergeable {
                mapping
                    .merge(node)
                    .map_err(|text| self.refusal(key_at, text))?;
            } else if !mapping.insert(&key, node, key_at) {
                let text = format!("the key `{key}` is defined twice: remove one of them");
                return Err(self.refusal(key_at, text));
            }
            self.path.pop();
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        at: Position,
    ) -> Result<Value, YamlRemark> {
        self.check_tag(tag, at)?;
        let as_text = tag.is_some_and(|tag| is_bare(tag) || tag.suffix == "str");
        if style != ScalarStyle::Plain || as_text {
            return Ok(Value::String(text.to_owned()));
        }
        self.warn_of_kubectl_difference(text, true, at);
        scalar::resolve(text).map_err(|text| self.refusal(at, text))
    }

    fn warn_of_kubectl_difference(&mut self, text: &str, plain: bool, at: Position) {
        if let Some(text) = scalar::kubectl_difference(text).filter(|_| plain) {
            let path = self.path.clone();
            self.notes.push(YamlRemark { at, path, text });
        }
    }

    fn check_tag(&self, tag: Option<&Tag>, at: Position) -> Result<(), YamlRemark> {
        match tag {
            Some(tag) if !tag.is_yaml_core_schema() && !is_bare(tag) => {
                Err(self.refusal(at, format!("the tag `{tag}` is not supported: remove it")))
            }
            _ => Ok(()),
        }
    }

    fn count_copy(&mut self, weight: usize, at: Position) -> Result<(), YamlRemark> {
        self.copied = self.copied.saturating_add(weight);
        if self.copied > MAX_COPIED_BYTES {
            let text = "anchors and aliases expand to too much: write the values out".to_owned();
            return Err(self.refusal(at, text));
        }
        Ok(())
    }

    /// Only the end may follow, which is also where late syntax errors are detected.
    fn end_of_document(&mut self) -> Result<(), YamlRemark> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentEnd, _) => {}
                (_, at) => {
                    let text = "a second document without `---`: put `---` before it";
                    return Err(self.refusal(at, text.to_owned()));
                }
            }
        }
    }

    fn refusal(&self, at: Position, text: String) -> YamlRemark {
        let path = self.path.clone();
        YamlRemark { at, path, text }
    }

    fn not_yaml(&self, error: &ScanError) -> YamlRemark {
        let text = format!("not YAML: {}", error.info());
        self.refusal(position(*error.marker()), text)
    }
}

impl Node {
    fn new(value: Value, at: Position, inside: SpanContent, weight: usize) -> Self {
        let spans = Spans { at, inside };
        Self {
            value,
            spans,
            weight,
        }
    }
}

/// A mapping under construction.
#[derive(Default)]
struct Mapping {
    fields: Map<String, Value>,
    spans: Vec<(Box<str>, Spans)>,
    /// From `<<`: overridden by the mapping's own keys.
    merged: Vec<Node>,
    weight: usize,
}

impl Mapping {
    fn insert(&mut self, key: &str, mut node: Node, key_at: Position) -> bool {
        node.spans.at = key_at;
        self.weight += node.weight + key.len();
        self.spans.push((key.into(), node.spans));
        self.fields.insert(key.to_owned(), node.value).is_none()
    }

    fn merge(&mut self, node: Node) -> Result<(), String> {
        match (&node.value, &node.spans.inside) {
            (Value::Object(_), _) => self.merged.push(node),
            (Value::Array(items), SpanContent::Items(spans))
                if items.iter().all(Value::is_object) =>
            {
                for (value, spans) in items.iter().zip(spans) {
                    let (value, spans) = (value.clone(), spans.clone());
                    self.merged.push(Node {
                        value,
                        spans,
                        weight: 0,
                    });
                }
            }
            _ => return Err("`<<` takes a mapping or a sequence of mappings".to_owned()),
        }
        Ok(())
    }

    fn finish(mut self, at: Position) -> Node {
        for node in std::mem::take(&mut self.merged) {
            self.weight += node.weight;
            let (Value::Object(fields), SpanContent::Fields(spans)) =
                (node.value, node.spans.inside)
            else {
                continue;
            };
            let new = |key: &str| !self.fields.contains_key(key);
            self.spans
                .extend(spans.into_iter().filter(|(key, _)| new(key)));
            for (key, value) in fields {
                self.fields.entry(key).or_insert(value);
            }
        }
        let inside = SpanContent::Fields(self.spans);
        Node::new(
            Value::Object(self.fields),
            at,
            inside,
            NODE_WEIGHT + self.weight,
        )
    }
}

/// `!` alone forces text.
fn is_bare(tag: &Tag) -> bool {
    tag.handle.is_empty() && tag.suffix == "!"
}

fn position(marker: Marker) -> Position {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position {
        line: number(marker.line()).max(1),
        column: number(marker.col()).saturating_add(1),
    }
}

/// The deepest object of Gateway API has about 12 levels; recursion uses stack.
const MAX_DEPTH: usize = 64;

/// Limit of bytes copied by aliases in a document: far above real use, far below harm ("billion
/// laughs").
const MAX_COPIED_BYTES: usize = 4 << 20;

/// Approximate size of a node besides its text.
const NODE_WEIGHT: usize = 64;

#[cfg(test)]
mod tests;
