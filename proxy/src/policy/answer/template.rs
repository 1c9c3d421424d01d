//! Bodies with placeholders.

use std::ops::Range;
use std::sync::Arc;

use http::StatusCode;
use xds::model::Content;

use crate::limits::PLACEHOLDERS;

/// A body, in which placeholders stand for facts of a request. One without is sent as it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Template {
    bytes: Arc<[u8]>,
    /// The placeholders, in order.
    places: Box<[(Range<usize>, Placeholder)]>,
    escape: Escape,
}

/// What a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placeholder {
    RequestId,
    Status,
    Host,
}

/// How a fact is written in a body, so that it stays a text there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    /// As it is.
    Nothing,
    /// As text of HTML and XML, also within quotes.
    Markup,
    /// As a part of a JSON string.
    Json,
}

/// The facts of a request.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Its id.
    pub request_id: &'a str,
    /// Status of the answer.
    pub status: StatusCode,
    /// Normalised host, without port.
    pub host: &'a str,
}

impl Template {
    /// Compiles a body, whose type says how facts are escaped.
    #[must_use]
    pub fn compile(content: &Content) -> Self {
        let bytes = content.body.to_shared();
        let escape = Escape::of(content.media_type.as_bytes());
        let places = places(&bytes);
        Self {
            bytes,
            places,
            escape,
        }
    }

    /// Whether it has placeholders.
    #[must_use]
    pub fn has_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// The body for a request. It refers to the template: a client that does not read its response keeps no copy.
    #[must_use]
    pub fn fill(&self, facts: Facts<'_>) -> Filled<'_> {
        let written = |placeholder, fact: &str| {
            let mut places = self.places.iter();
            let mut out = Vec::new();
            if places.any(|(_, of_place)| *of_place == placeholder) {
                self.escape.write(fact, &mut out);
            }
            out.into_boxed_slice()
        };
        let facts = self.has_places().then(|| {
            Box::new(EscapedFacts {
                request_id: written(Placeholder::RequestId, facts.request_id),
                status: written(Placeholder::Status, facts.status.as_str()),
                host: written(Placeholder::Host, facts.host),
            })
        });
        Filled {
            template: self,
            facts,
        }
    }
}

/// A template with the facts of a request.
#[derive(Debug)]
pub struct Filled<'t> {
    template: &'t Template,
    facts: Option<Box<EscapedFacts>>,
}

/// Facts as they stand in a body.
#[derive(Debug)]
struct EscapedFacts {
    request_id: Box<[u8]>,
    status: Box<[u8]>,
    host: Box<[u8]>,
}

impl Filled<'_> {
    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts().map(<[u8]>::len).sum()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those of the bytes from `at` on that lie together; none at the end.
    #[must_use]
    pub fn part_at(&self, at: usize) -> &[u8] {
        let mut start = 0_usize;
        for part in self.parts() {
            let end = start.saturating_add(part.len());
            if at < end {
                return part.get(at.saturating_sub(start)..).unwrap_or_default();
            }
            start = end;
        }
        &[]
    }

    /// The texts between the placeholders, and what stands in the places of these.
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let (bytes, places) = (&self.template.bytes, &self.template.places);
        let ends = places.iter().map(|(range, _)| range.end);
        let starts = std::iter::once(0).chain(ends);
        let facts = places.iter().map(Some).chain(std::iter::once(None));
        starts.zip(facts).flat_map(|(start, place)| {
            let (end, fact) = match place {
                Some((range, placeholder)) => (range.start, self.fact(*placeholder)),
                None => (bytes.len(), [].as_slice()),
            };
            [bytes.get(start..end).unwrap_or_default(), fact]
        })
    }

    fn fact(&self, placeholder: Placeholder) -> &[u8] {
        match (&self.facts, placeholder) {
            (None, _) => &[],
            (Some(facts), Placeholder::RequestId) => &facts.request_id,
            (Some(facts), Placeholder::Status) => &facts.status,
            (Some(facts), Placeholder::Host) => &facts.host,
        }
    }
}

impl Escape {
    /// That of a media type: RFC 6839 names the suffixes.
    fn of(media_type: &[u8]) -> Self {
        let essence = media_type.split(|byte| *byte == b';').next();
        let essence = essence.unwrap_or_default().trim_ascii();
        let is = |name: &str| essence.eq_ignore_ascii_case(name.as_bytes());
        let ends = |suffix: &str| {
            let start = essence.len().checked_sub(suffix.len());
            let end = start.and_then(|start| essence.get(start..));
            end.is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
        };
        if ends("/json") || ends("+json") || is("text/javascript") || is("application/javascript") {
            Self::Json
        } else if is("text/html") || ends("/xml") || ends("+xml") {
            Self::Markup
        } else {
            Self::Nothing
        }
    }

    fn write(self, text: &str, out: &mut Vec<u8>) {
        for &byte in text.as_bytes() {
            match (self, byte) {
                (Self::Markup, b'&') => out.extend_from_slice(b"&amp;"),
                (Self::Markup, b'<') => out.extend_from_slice(b"&lt;"),
                (Self::Markup, b'>') => out.extend_from_slice(b"&gt;"),
                (Self::Markup, b'"') => out.extend_from_slice(b"&quot;"),
                (Self::Markup, b'\'') => out.extend_from_slice(b"&#39;"),
                (Self::Json, b'"' | b'\\' | b'<' | b'>' | b'&' | b'\'' | ..=0x1f) => {
                    let [high, low] = [byte.unbounded_shr(4), byte & 0xf].map(usize::from);
                    out.extend_from_slice(b"\\u00");
                    out.extend(HEX.get(high).into_iter().chain(HEX.get(low)));
                }
                _ => out.push(byte),
            }
        }
    }
}

/// The places of placeholders.
fn places(bytes: &[u8]) -> Box<[(Range<usize>, Placeholder)]> {
    let mut found = Vec::new();
    let mut from = 0_usize;
    while found.len() < PLACEHOLDERS
        && let Some(rest) = bytes.get(from..)
        && let Some(at) = rest.iter().position(|byte| *byte == b'{')
    {
        let (start, rest) = (from.saturating_add(at), rest.get(at..).unwrap_or_default());
        let known = KNOWN.iter().find(|(name, _)| rest.starts_with(name));
        from = start.saturating_add(known.map_or(1, |(name, _)| name.len()));
        found.extend(known.map(|(_, placeholder)| (start..from, *placeholder)));
    }
    found.into()
}

const KNOWN: [(&[u8], Placeholder); 3] = [
    (b"{request_id}", Placeholder::RequestId),
    (b"{status}", Placeholder::Status),
    (b"{host}", Placeholder::Host),
];
const HEX: &[u8; 16] = b"0123456789abcdef";
