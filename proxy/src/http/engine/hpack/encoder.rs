//! Encodes field blocks (RFC 7541 section 6).
//!
//! What the static table has is referred to. A field is added to the peer's dynamic table when it occurs
//! for the second time within the memory of a small memo, so that values that occur once (ids, dates)
//! evict nothing. The memo finds candidates by hash; the text decides, because hashes collide.

use super::table::{TABLE_BYTES, Table, TableEntry};
use super::{ENTRY_OVERHEAD, NameKind, Validity, huffman, integer, static_table};
use crate::http::ascii;
use crate::http::known::{KnownHeader, KnownSet};

/// The encoder of one connection.
#[derive(Debug)]
pub struct Encoder {
    /// The peer's table.
    table: Table,
    memo: Option<Box<[[Slot; 2]; MEMO_PAIRS]>>,
    huffman: Huffman,
    /// The most bytes that the peer accepts in its table, up to ours.
    allowed: usize,
    /// The size changes that the next block begins with: the smallest since the last block, and the
    /// last one.
    resize: Option<Resize>,
    /// A name in lower case.
    name: Vec<u8>,
}

/// Which strings are compressed with Huffman's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Huffman {
    /// None: bytes towards an endpoint are cheaper than the processor's time.
    Never,
    /// Those that are added to the table, and those of more than 32 bytes.
    Long,
}

#[derive(Debug, Clone, Copy)]
struct Resize {
    smallest: usize,
    last: usize,
}

/// What is known of the fields of one place in the memo.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    hash: u32,
    /// Number of the entry that the field was added as, counted by [`Table::added`].
    number: u32,
    state: SlotState,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SlotState {
    #[default]
    Free,
    /// The field has occurred once.
    Seen,
    /// It was added to the table, and used since another one has claimed the place.
    Used,
    /// It was added, but another one has claimed the place since it was used last.
    Claimed,
}

/// How a field is represented if it is not in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Indexing {
    /// It is added to the table when it occurs again.
    Repeated,
    /// It is not added: it hardly ever repeats.
    Without,
    /// No hop may add it: it is secret (section 7.1.3).
    Never,
}

impl Encoder {
    /// An encoder for a peer that has not sent its SETTINGS yet.
    #[must_use]
    pub fn new(huffman: Huffman) -> Self {
        Self {
            table: Table::new(TABLE_BYTES),
            memo: None,
            huffman,
            allowed: TABLE_BYTES,
            resize: None,
            name: Vec::new(),
        }
    }

    /// Sets the size of the table that the peer accepts (`SETTINGS_HEADER_TABLE_SIZE`).
    pub fn set_peer_limit(&mut self, bytes: u32) {
        let limit = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.allowed = limit.min(TABLE_BYTES);
        self.resize_to(self.allowed);
    }

    fn resize_to(&mut self, limit: usize) {
        let smallest = self.resize.map_or(limit, |resize| resize.smallest);
        if limit == self.table.limit() && self.resize.is_none() {
            return;
        }
        self.resize = Some(Resize {
            smallest: smallest.min(limit),
            last: limit,
        });
        self.table.set_limit(limit);
    }

    /// Releases the memory of an idle connection. The next block empties the peer's table.
    pub fn release_memory(&mut self) {
        self.name = Vec::new();
        if self.memo.take().is_some() {
            self.resize_to(0);
            self.table = Table::new(0);
            self.resize_to(self.allowed);
        }
    }

    /// Begins a block.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(Resize { smallest, last }) = self.resize.take() {
            if smallest < last {
                integer::encode(out, 0x20, 5, smallest);
            }
            integer::encode(out, 0x20, 5, last);
        }
    }

    /// Appends a field of the static table.
    pub fn indexed(&mut self, out: &mut Vec<u8>, index: u8) {
        integer::encode(out, 0x80, 7, usize::from(index));
    }

    /// Appends a pseudo-header field whose name is at this index of the static table.
    pub fn pseudo(&mut self, out: &mut Vec<u8>, index: u8, value: &[u8]) {
        if let Some(entry) = static_table::entry(usize::from(index)) {
            let (name, kind) = (entry.name, entry.kind);
            self.encode(out, Some(index), (name, kind), value, Indexing::Repeated);
        }
    }

    /// Appends a field, whose name may be in any case.
    pub fn field(&mut self, out: &mut Vec<u8>, known: KnownHeader, name: &[u8], value: &[u8]) {
        let is_secret = SECRET.has(known)
            || (name.len() == SET_COOKIE.len() && name.eq_ignore_ascii_case(SET_COOKIE));
        let indexing = if is_secret {
            Indexing::Never
        } else if UNIQUE.has(known) {
            Indexing::Without
        } else {
            Indexing::Repeated
        };
        self.encode(out, None, (name, NameKind::Field(known)), value, indexing);
    }

    /// Appends a field, whose name may be at a known index of the static table.
    fn encode(
        &mut self,
        out: &mut Vec<u8>,
        index: Option<u8>,
        (name, kind): (&[u8], NameKind),
        value: &[u8],
        indexing: Indexing,
    ) {
        let size = name.len().saturating_add(value.len());
        let size = size.saturating_add(ENTRY_OVERHEAD);
        // A large entry would evict too many others.
        let is_small = size <= self.table.limit() / 4;
        let memo = if indexing == Indexing::Repeated && is_small {
            self.look_up(name, kind, value)
        } else {
            Memo::New
        };
        if let Memo::Entry(newer) = memo {
            let index = static_table::LEN.saturating_add(1).saturating_add(newer);
            return integer::encode(out, 0x80, 7, index);
        }
        let index = match kind {
            NameKind::Field(known) => static_table::index_of_known(known),
            NameKind::Pseudo(_) => index,
        };
        let mut lower = std::mem::take(&mut self.name);
        lower.clear();
        // A name that the static table has is not written.
        if index.is_none() || matches!(memo, Memo::Repeated) {
            lower.extend_from_slice(name);
            lower.make_ascii_lowercase();
        }
        let pattern = match (&memo, indexing) {
            (Memo::Repeated, _) => (0x40, 6),
            (_, Indexing::Never) => (0x10, 4),
            (_, Indexing::Repeated | Indexing::Without) => (0x00, 4),
        };
        if let Memo::Repeated = memo {
            self.table.add(TableEntry {
                name: &lower,
                value,
                kind,
                validity: Validity::Valid,
            });
        }
        let index = index.or_else(|| match kind {
            NameKind::Field(KnownHeader::Other) => static_table::index_of_other(&lower),
            NameKind::Field(_) | NameKind::Pseudo(_) => None,
        });
        self.name_and_value(out, pattern, index, &lower, value);
        self.name = lower;
    }

    fn name_and_value(
        &self,
        out: &mut Vec<u8>,
        (pattern, bits): (u8, u32),
        index: Option<u8>,
        name: &[u8],
        value: &[u8],
    ) {
        let shortest = match (self.huffman, pattern) {
            (Huffman::Never, _) => usize::MAX,
            (Huffman::Long, 0x40) => 0,
            (Huffman::Long, _) => LONG_BYTES,
        };
        integer::encode(out, pattern, bits, index.map_or(0, usize::from));
        if index.is_none() {
            string(out, name, shortest);
        }
        string(out, value, shortest);
    }

    /// Finds a field in the memo, and records its occurrence.
    fn look_up(&mut self, name: &[u8], kind: NameKind, value: &[u8]) -> Memo {
        let hash = hash(name, kind, value);
        let memo = self
            .memo
            .get_or_insert_with(|| Box::new([[Slot::default(); 2]; MEMO_PAIRS]));
        let [low, ..] = hash.to_le_bytes();
        let Some(pair) = memo.get_mut(usize::from(low) % MEMO_PAIRS) else {
            return Memo::New;
        };
        let is_its = |slot: &&mut Slot| slot.state != SlotState::Free && slot.hash == hash;
        let Some(slot) = pair.iter_mut().find(is_its) else {
            claim(pair, hash);
            return Memo::New;
        };
        if slot.state != SlotState::Seen {
            let newer = self.table.added().wrapping_sub(slot.number);
            let newer = usize::try_from(newer).unwrap_or(usize::MAX);
            let entry = self.table.entry(newer);
            if entry.is_some_and(|entry| is_same(&entry, name, kind, value)) {
                slot.state = SlotState::Used;
                return Memo::Entry(newer);
            }
        }
        slot.number = self.table.added().wrapping_add(1);
        slot.state = SlotState::Used;
        Memo::Repeated
    }
}

/// Puts a new field into the first of two places; what was there moves to the second. A field that was used
/// since its place was claimed before stays: then the places are only claimed.
fn claim([first, second]: &mut [Slot; 2], hash: u32) {
    let new = Slot {
        hash,
        number: 0,
        state: SlotState::Seen,
    };
    if second.state != SlotState::Used {
        *second = std::mem::replace(first, new);
    } else if first.state != SlotState::Used {
        *first = new;
    } else {
        first.state = SlotState::Claimed;
        second.state = SlotState::Claimed;
    }
}

/// Whether an entry of the table is this field. A known name is the same if its kind is.
fn is_same(entry: &TableEntry<'_>, name: &[u8], kind: NameKind, value: &[u8]) -> bool {
    let is_known = kind != NameKind::Field(KnownHeader::Other);
    entry.kind == kind
        && (is_known || ascii::eq_ignore_case(entry.name, name))
        && entry.value == value
}

/// What the memo knows of a field.
enum Memo {
    /// It is the entry before this many newer ones.
    Entry(usize),
    /// It has occurred before, and is to be added: its number is recorded.
    Repeated,
    /// It has not occurred, as far as known.
    New,
}

/// Appends a string (section 5.2), compressed if it has more than `shortest` bytes and gets shorter.
fn string(out: &mut Vec<u8>, text: &[u8], shortest: usize) {
    if text.len() > shortest {
        let length = huffman::encoded_len(text);
        if length < text.len() {
            integer::encode(out, 0x80, 7, length);
            return huffman::encode(text, out);
        }
    }
    integer::encode(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// A hash of a field, eight bytes at a time, that is the same for a name in any case.
fn hash(name: &[u8], kind: NameKind, value: &[u8]) -> u32 {
    let mut state = 0_u64;
    let mut add = |word: u64| state = (state.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    match kind {
        NameKind::Field(KnownHeader::Other) => for_each_word(name, |word| add(word | LOWER_CASE)),
        NameKind::Field(known) => add(known as u64),
        NameKind::Pseudo(pseudo) => add(u64::from(u32::MAX).wrapping_add(pseudo as u64)),
    }
    for_each_word(value, &mut add);
    let length = name.len().rotate_left(16) ^ value.len();
    add(u64::try_from(length).unwrap_or(u64::MAX));
    let [.., high0, high1, high2, high3] = state.to_le_bytes();
    u32::from_le_bytes([high3, high2, high1, high0])
}

/// The bit that upper case lacks, in each byte.
const LOWER_CASE: u64 = 0x2020_2020_2020_2020;

/// Passes on all bytes of a text, eight at a time; some twice, so that none needs a loop of its own.
#[inline]
fn for_each_word(text: &[u8], mut visit: impl FnMut(u64)) {
    if let Some(last) = text.last_chunk::<8>() {
        text.as_chunks::<8>()
            .0
            .iter()
            .for_each(|word| visit(u64::from_le_bytes(*word)));
        visit(u64::from_le_bytes(*last));
    } else if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        visit(u64::from(first) | u64::from(last).unbounded_shl(32));
    } else {
        let few = text
            .iter()
            .fold(0_u64, |few, &byte| few.unbounded_shl(8) | u64::from(byte));
        visit(few);
    }
}

/// Half of the digits of the golden ratio: odd, and without a pattern.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Pairs of places of the memo: 32, for twice the fields that a client and its requests repeat.
const MEMO_PAIRS: usize = 32;

/// Strings up to 32 bytes are not compressed: it would save some bytes each, and cost more than all the
/// rest of their encoding.
const LONG_BYTES: usize = 32;

/// Its values are as secret as those of `cookie`.
const SET_COOKIE: &[u8] = b"set-cookie";

/// Fields that no hop may add to a table: an attacker who can choose other fields could guess their
/// values by the size of what is sent (section 7.1).
const SECRET: KnownSet = KnownSet::of(&[
    KnownHeader::Authorization,
    KnownHeader::Cookie,
    KnownHeader::ProxyAuthorization,
]);

/// Fields that differ from message to message.
const UNIQUE: KnownSet = KnownSet::of(&[
    KnownHeader::ContentLength,
    KnownHeader::GrpcTimeout,
    KnownHeader::XRequestId,
]);

#[cfg(test)]
mod tests {
    use super::{Encoder, Huffman, NameKind, hash};
    use crate::http::known::KnownHeader;

    fn encode(encoder: &mut Encoder, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        encoder.begin(&mut out);
        for (name, value) in fields {
            let known = KnownHeader::of(name.as_bytes());
            encoder.field(&mut out, known, name.as_bytes(), value.as_bytes());
        }
        out
    }

    #[test]
    fn a_field_is_added_when_it_occurs_again() {
        let mut encoder = Encoder::new(Huffman::Never);
        let field = [("X-A", "b")];
        assert_eq!(encode(&mut encoder, &field), b"\x00\x03x-a\x01b");
        assert_eq!(encode(&mut encoder, &field), b"\x40\x03x-a\x01b");
        assert_eq!(encode(&mut encoder, &field), b"\xbe");
        let other = [("x-c", "d")];
        encode(&mut encoder, &other);
        encode(&mut encoder, &other);
        assert_eq!(encode(&mut encoder, &field), b"\xbf");
    }

    #[test]
    fn the_fields_of_a_call_all_have_a_place() {
        let mut encoder = Encoder::new(Huffman::Never);
        let fields = [
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("user-agent", "h2load nghttp2/1.52.0"),
            ("grpc-accept-encoding", "identity"),
            ("x-forwarded-for", "10.1.2.3"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "127.0.0.1:8080"),
        ];
        encode(&mut encoder, &fields);
        encode(&mut encoder, &fields);
        assert_eq!(encode(&mut encoder, &fields).len(), fields.len());
    }

    #[test]
    fn secrets_are_never_added() {
        let mut encoder = Encoder::new(Huffman::Long);
        for (field, first) in [
            (("authorization", "a"), &b"\x1f\x08\x01a"[..]),
            (("Cookie", "a"), b"\x1f\x11\x01a"),
            (("set-cookie", "a"), b"\x1f\x28\x01a"),
            (("proxy-authorization", "a"), b"\x1f\x22\x01a"),
        ] {
            for _ in 0..3 {
                assert_eq!(encode(&mut encoder, &[field]), first, "{field:?}");
            }
        }
    }

    #[test]
    fn single_occurrences_do_not_displace_what_repeats() {
        let mut encoder = Encoder::new(Huffman::Never);
        let field = [("x-a", "b")];
        for _ in 0..3 {
            encode(&mut encoder, &field);
        }
        let mut displaced = 0;
        for number in 0..10_000 {
            encode(&mut encoder, &[("x-id", &number.to_string())]);
            if number % 4 == 0 && encode(&mut encoder, &field).len() > 2 {
                displaced += 1;
            }
        }
        // Two of those that came in between had its place in the memo.
        assert!(displaced <= 25, "{displaced} of 2 500");
        assert!(encoder.table.added() <= 1 + displaced);
    }

    #[test]
    fn the_peers_limit_begins_the_next_block() {
        let mut encoder = Encoder::new(Huffman::Never);
        encoder.set_peer_limit(0);
        encoder.set_peer_limit(100);
        assert_eq!(encode(&mut encoder, &[]), b"\x20\x3f\x45");
        assert_eq!(encode(&mut encoder, &[]), b"");
        encoder.set_peer_limit(u32::MAX);
        assert_eq!(encode(&mut encoder, &[]), b"\x3f\xe1\x1f");
    }

    #[test]
    fn an_idle_connection_has_no_memory() {
        let mut encoder = Encoder::new(Huffman::Never);
        for _ in 0..3 {
            encode(&mut encoder, &[("x-a", "b")]);
        }
        encoder.release_memory();
        assert!(encoder.memo.is_none());
        assert_eq!(
            encode(&mut encoder, &[("x-a", "b")]),
            b"\x20\x3f\xe1\x1f\x00\x03x-a\x01b"
        );
        encoder.release_memory();
        encoder.set_peer_limit(0);
        assert_eq!(encode(&mut encoder, &[]), b"\x20");
    }

    #[test]
    fn long_strings_are_compressed_towards_clients() {
        let long = "a".repeat(40);
        let mut encoder = Encoder::new(Huffman::Long);
        let out = encode(&mut encoder, &[("x-a", &long)]);
        assert!(out.len() < 40);
        let mut encoder = Encoder::new(Huffman::Never);
        let out = encode(&mut encoder, &[("x-a", &long)]);
        assert_eq!(out.len(), 46);
    }

    #[test]
    fn a_name_in_any_case_is_the_same_field() {
        let mut encoder = Encoder::new(Huffman::Never);
        encode(&mut encoder, &[("X-Request-Thing", "b")]);
        encode(&mut encoder, &[("x-request-thing", "b")]);
        assert_eq!(encode(&mut encoder, &[("X-REQUEST-THING", "b")]), b"\xbe");
    }

    #[test]
    fn names_and_values_do_not_hash_as_one_text() {
        let other = NameKind::of(b"x");
        let hash = |name, value| hash(name, other, value);
        assert_ne!(hash(b"ab", b"c"), hash(b"a", b"bc"));
        assert_ne!(hash(b"", b"\0"), hash(b"", b"\0\0"));
    }
}
