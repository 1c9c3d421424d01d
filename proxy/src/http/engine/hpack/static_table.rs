//! The static table (RFC 7541 appendix A).

use super::{NameKind, Pseudo};
use crate::http::known::KnownHeader;

/// An entry of the static table.
#[derive(Debug, Clone, Copy)]
pub struct StaticEntry {
    /// Its name.
    pub name: &'static [u8],
    /// Its value, often empty.
    pub value: &'static [u8],
    /// What the name means.
    pub kind: NameKind,
}

/// The entry at an index, which begins at 1.
#[must_use]
#[inline]
pub fn entry(index: usize) -> Option<&'static StaticEntry> {
    ENTRIES.get(index.checked_sub(1)?)
}

/// Number of entries: the index of the first entry of the dynamic table is one more.
pub const LEN: usize = ENTRIES.len();

/// The index of an entry of a name that is treated specially.
#[must_use]
pub fn index_of_known(known: KnownHeader) -> Option<u8> {
    match known {
        KnownHeader::Authorization => Some(23),
        KnownHeader::ContentLength => Some(28),
        KnownHeader::ContentType => Some(31),
        KnownHeader::Cookie => Some(32),
        KnownHeader::Expect => Some(35),
        KnownHeader::Host => Some(38),
        KnownHeader::ProxyAuthenticate => Some(48),
        KnownHeader::ProxyAuthorization => Some(49),
        KnownHeader::TransferEncoding => Some(57),
        KnownHeader::UserAgent => Some(58),
        _ => None,
    }
}

/// The index of an entry of a name that is not, in lower case.
#[must_use]
pub fn index_of_other(name: &[u8]) -> Option<u8> {
    let index = *PLACES.get(place(name)?)?;
    let found = entry(usize::from(index))?;
    (found.name == name).then_some(index)
}

/// The place of a name in the table below: a hash that is different for each name of the static table.
const fn place(name: &[u8]) -> Option<usize> {
    let (Some(first), Some([third, ..])) = (name.first(), name.last_chunk::<3>()) else {
        return None;
    };
    let Some((_, [middle, ..])) = name.split_at_checked(name.len() / 2) else {
        return None;
    };
    let hash = (name.len().wrapping_mul(22))
        .wrapping_add((*first as usize).wrapping_mul(5))
        .wrapping_add((*middle as usize).wrapping_mul(12))
        .wrapping_add(*third as usize);
    Some(hash % PLACES_LEN)
}

/// Indices of the names, at their places.
static PLACES: [u8; PLACES_LEN] = places();

const PLACES_LEN: usize = 128;

#[expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "carried out by the compiler"
)]
const fn places() -> [u8; PLACES_LEN] {
    let mut places = [0; PLACES_LEN];
    // Pseudo-header fields come first, and are not looked for.
    let mut index = 15;
    while index <= ENTRIES.len() {
        match place(ENTRIES[index - 1].name) {
            Some(place) if places[place] == 0 => places[place] = index as u8,
            _ => panic!("two names at one place"),
        }
        index += 1;
    }
    places
}

const fn pseudo(name: &'static str, value: &'static str, pseudo: Pseudo) -> StaticEntry {
    StaticEntry {
        name: name.as_bytes(),
        value: value.as_bytes(),
        kind: NameKind::Pseudo(pseudo),
    }
}

const fn known(name: &'static str, known: KnownHeader) -> StaticEntry {
    StaticEntry {
        name: name.as_bytes(),
        value: b"",
        kind: NameKind::Field(known),
    }
}

const fn other(name: &'static str) -> StaticEntry {
    known(name, KnownHeader::Other)
}

static ENTRIES: [StaticEntry; 61] = [
    pseudo(":authority", "", Pseudo::Authority),
    pseudo(":method", "GET", Pseudo::Method),
    pseudo(":method", "POST", Pseudo::Method),
    pseudo(":path", "/", Pseudo::Path),
    pseudo(":path", "/index.html", Pseudo::Path),
    pseudo(":scheme", "http", Pseudo::Scheme),
    pseudo(":scheme", "https", Pseudo::Scheme),
    pseudo(":status", "200", Pseudo::Status),
    pseudo(":status", "204", Pseudo::Status),
    pseudo(":status", "206", Pseudo::Status),
    pseudo(":status", "304", Pseudo::Status),
    pseudo(":status", "400", Pseudo::Status),
    pseudo(":status", "404", Pseudo::Status),
    pseudo(":status", "500", Pseudo::Status),
    other("accept-charset"),
    StaticEntry {
        name: b"accept-encoding",
        value: b"gzip, deflate",
        kind: NameKind::Field(KnownHeader::Other),
    },
    other("accept-language"),
    other("accept-ranges"),
    other("accept"),
    other("access-control-allow-origin"),
    other("age"),
    other("allow"),
    known("authorization", KnownHeader::Authorization),
    other("cache-control"),
    other("content-disposition"),
    other("content-encoding"),
    other("content-language"),
    known("content-length", KnownHeader::ContentLength),
    other("content-location"),
    other("content-range"),
    known("content-type", KnownHeader::ContentType),
    known("cookie", KnownHeader::Cookie),
    other("date"),
    other("etag"),
    known("expect", KnownHeader::Expect),
    other("expires"),
    other("from"),
    known("host", KnownHeader::Host),
    other("if-match"),
    other("if-modified-since"),
    other("if-none-match"),
    other("if-range"),
    other("if-unmodified-since"),
    other("last-modified"),
    other("link"),
    other("location"),
    other("max-forwards"),
    known("proxy-authenticate", KnownHeader::ProxyAuthenticate),
    known("proxy-authorization", KnownHeader::ProxyAuthorization),
    other("range"),
    other("referer"),
    other("refresh"),
    other("retry-after"),
    other("server"),
    other("set-cookie"),
    other("strict-transport-security"),
    known("transfer-encoding", KnownHeader::TransferEncoding),
    known("user-agent", KnownHeader::UserAgent),
    other("vary"),
    other("via"),
    other("www-authenticate"),
];

#[cfg(test)]
mod tests {
    use super::{ENTRIES, LEN, entry, index_of_known, index_of_other};
    use crate::http::engine::hpack::NameKind;
    use crate::http::known::KnownHeader;

    #[test]
    fn every_name_is_found_by_its_kind() {
        for (index, entry) in (1_u8..).zip(&ENTRIES) {
            assert_eq!(NameKind::of(entry.name), entry.kind, "{index}");
            let found = match entry.kind {
                NameKind::Field(KnownHeader::Other) => index_of_other(entry.name),
                NameKind::Field(known) => index_of_known(known),
                NameKind::Pseudo(_) => continue,
            };
            assert_eq!(found, Some(index));
        }
        for name in ["x-a", "accept-encodinG", "", "viA", "content-languagx"] {
            assert_eq!(index_of_other(name.as_bytes()), None);
        }
    }

    #[test]
    fn the_index_begins_at_one() {
        assert!(entry(0).is_none());
        assert_eq!(entry(1).map(|entry| entry.name), Some(&b":authority"[..]));
        assert!(entry(LEN).is_some() && entry(LEN + 1).is_none());
        let text: usize = ENTRIES.iter().map(|entry| entry.name.len()).sum();
        assert_eq!(text, 622);
    }
}
