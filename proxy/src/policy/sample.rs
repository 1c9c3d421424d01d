//! Heads for tests: field lines as parsed by the codec.

use crate::http::head::{Field, Fields, Span};
use crate::http::known::KnownHeader;
use crate::policy::effective_fields::{EffectiveFields, PolicyView};
use crate::policy::forwarded::HeaderTrust;

/// A head with these field lines.
pub(super) fn fields(lines: &[(&str, &str)]) -> (Fields, Vec<u8>) {
    let mut head = Vec::new();
    let mut fields = Fields::default();
    for (name, value) in lines {
        let field = Field {
            name: push(&mut head, name),
            value: push(&mut head, value),
            known: KnownHeader::of(name.as_bytes()),
        };
        fields.push(field);
    }
    (fields, head)
}

/// The fields of an untrusted client that is not authenticated.
pub(super) fn effective((fields, bytes): &(Fields, Vec<u8>)) -> EffectiveFields<'_> {
    EffectiveFields {
        fields,
        bytes,
        header_trust: HeaderTrust::Untrusted,
        principal: None,
        own: b"",
        grants: None,
        view: PolicyView::Effective,
    }
}

/// The output of a function, as text.
pub(super) fn written<T>(write: impl FnOnce(&mut Vec<u8>) -> T) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).expect("ASCII")
}

fn push(head: &mut Vec<u8>, text: &str) -> Span {
    let at = |len: usize| u16::try_from(len).expect("a head below 64 KiB");
    let start = at(head.len());
    head.extend_from_slice(text.as_bytes());
    Span {
        start,
        end: at(head.len()),
    }
}
