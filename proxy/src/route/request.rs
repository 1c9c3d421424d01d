//! The parts of a request that routing reads, independent of the protocol.

use http::{HeaderMap, HeaderName};

use crate::http::head::Fields;
use crate::http::known::KnownHeader;

/// A request as seen by the router.
#[derive(Debug, Clone, Copy)]
pub struct RequestView<'a, H> {
    /// Host in lower case, without port and trailing dot.
    pub host: &'a [u8],
    /// Path, normalised, without query.
    pub path: &'a [u8],
    /// Query as received, without `?`.
    pub query: Option<&'a [u8]>,
    /// Method, compared with case.
    pub method: &'a [u8],
    /// Looks up header fields.
    pub headers: &'a H,
}

/// Finds header fields by name.
pub trait HeaderLookup {
    /// The values of all lines of this name, in order.
    fn values<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]>;
}

/// The fields of an HTTP/1 head with its bytes.
#[derive(Debug, Clone, Copy)]
pub struct HeadFields<'a> {
    /// Header fields of the request.
    pub fields: &'a Fields,
    /// The bytes that the fields point into.
    pub head: &'a [u8],
}

impl HeaderLookup for HeadFields<'_> {
    fn values<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let known = KnownHeader::of(name.as_str().as_bytes());
        let absent = known != KnownHeader::Other && !self.fields.has(known);
        let lines = if absent { None } else { Some(self.fields) };
        lines
            .into_iter()
            .flatten()
            .filter(move |field| {
                field.known == known
                    && (known != KnownHeader::Other
                        || field
                            .name
                            .of(self.head)
                            .eq_ignore_ascii_case(name.as_str().as_bytes()))
            })
            .map(|field| field.value.of(self.head))
    }
}

impl HeaderLookup for HeaderMap {
    fn values<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name).iter().map(http::HeaderValue::as_bytes)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::{HeadFields, HeaderLookup};
    use crate::http::head::{Field, Fields, Span};
    use crate::http::known::KnownHeader;

    const LINES: [(&str, &str); 4] = [
        ("X-Team", "a"),
        ("Cookie", "k=v"),
        ("x-team", "b"),
        ("X-Teams", "c"),
    ];

    fn span(head: &mut Vec<u8>, text: &str) -> Span {
        let start = u16::try_from(head.len()).expect("a short head");
        head.extend_from_slice(text.as_bytes());
        let end = u16::try_from(head.len()).expect("a short head");
        Span { start, end }
    }

    fn assert_finds(headers: &impl HeaderLookup) {
        for (name, expected) in [
            ("x-team", &["a", "b"][..]),
            ("cookie", &["k=v"]),
            ("x-none", &[]),
            ("host", &[]),
        ] {
            let name = HeaderName::from_static(name);
            let expected: Vec<&[u8]> = expected.iter().map(|value| value.as_bytes()).collect();
            assert_eq!(headers.values(&name).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn header_lookup_ignores_case_and_keeps_order_in_both_protocols() {
        let (mut head, mut fields, mut map) = (Vec::new(), Fields::default(), HeaderMap::new());
        for (name, value) in LINES {
            let known = KnownHeader::of(name.as_bytes());
            let (name_span, value_span) = (span(&mut head, name), span(&mut head, value));
            fields.push(Field {
                name: name_span,
                value: value_span,
                known,
            });
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a valid name");
            map.append(name, HeaderValue::from_static(value));
        }
        assert_finds(&HeadFields {
            fields: &fields,
            head: &head,
        });
        assert_finds(&map);
    }
}
