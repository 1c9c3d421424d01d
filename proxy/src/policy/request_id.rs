//! `X-Request-Id`: identifies a request in all logs.

use super::forwarded::HeaderTrust;
use super::headers::HeaderEdits;
use crate::http::ascii;
use crate::http::head::Fields;
use crate::http::known::KnownHeader;
use crate::limits::REQUEST_ID_BYTES;

/// A request's id; owned, so that it outlives the head it may come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestId {
    text: [u8; REQUEST_ID_BYTES],
    len: usize,
}

impl RequestId {
    /// Uses a trusted hop's id if it is valid, otherwise generates one from `random`.
    #[must_use]
    pub fn choose(
        header_trust: HeaderTrust,
        fields: &Fields,
        head: &[u8],
        random: [u64; 2],
    ) -> Self {
        let sent = match header_trust {
            HeaderTrust::Trusted => fields.value(KnownHeader::XRequestId, head),
            HeaderTrust::Untrusted => None,
        };
        sent.and_then(Self::of).unwrap_or_else(|| Self::new(random))
    }

    /// A random UUID (version 4, RFC 9562).
    #[must_use]
    pub fn new(random: [u64; 2]) -> Self {
        let [high, low] = random;
        let bits = u128::from(high) << 64 | u128::from(low);
        let bits = bits & !UUID_FIXED | UUID_V4;
        let bytes = bits.to_be_bytes();
        let mut words = bytes.as_chunks::<4>().0.iter().copied().map(hex);
        let mut word = || words.next().unwrap_or_default();
        let [first, middle, end, last] = [word(), word(), word(), word()];
        let ((a, b), (c, d)) = (middle.split_at(4), end.split_at(4));
        let mut id = Self {
            text: [0; REQUEST_ID_BYTES],
            len: UUID_BYTES,
        };
        let mut rest = id.text.as_mut_slice();
        let parts: [&[u8]; 10] = [&first, b"-", a, b"-", b, b"-", c, b"-", d, &last];
        for part in parts {
            if let Some((place, after)) = std::mem::take(&mut rest).split_at_mut_checked(part.len())
            {
                place.copy_from_slice(part);
                rest = after;
            }
        }
        id
    }

    fn of(sent: &[u8]) -> Option<Self> {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:/+=@".contains(byte);
        if sent.is_empty() || !sent.iter().all(plain) {
            return None;
        }
        let mut text = [0; REQUEST_ID_BYTES];
        text.get_mut(..sent.len())?.copy_from_slice(sent);
        Some(Self {
            text,
            len: sent.len(),
        })
    }

    /// The id as text, all ASCII.
    #[must_use]
    pub fn as_str(&self) -> &str {
        ascii::text(self.bytes()).unwrap_or_default()
    }

    fn bytes(&self) -> &[u8] {
        self.text.get(..self.len).unwrap_or_default()
    }

    /// Writes its header, unless `edits` set the name. The request's own headers of that name have
    /// to be dropped.
    pub fn write_line(&self, edits: Option<&HeaderEdits>, out: &mut Vec<u8>) {
        if edits.is_some_and(|edits| edits.drops(b"x-request-id")) {
            return;
        }
        out.extend_from_slice(b"x-request-id: ");
        out.extend_from_slice(self.bytes());
        out.extend_from_slice(b"\r\n");
    }
}

impl std::fmt::Debug for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Eight hex digits at once: every nibble becomes a byte, and is mapped to its digit.
fn hex(bytes: [u8; 4]) -> [u8; 8] {
    let spread = u64::from(u32::from_be_bytes(bytes));
    let spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    let spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = (spread.wrapping_add(0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    let gap = letters.wrapping_mul(u64::from(b'a' - b'9' - 1));
    (spread | 0x3030_3030_3030_3030)
        .wrapping_add(gap)
        .to_be_bytes()
}

/// Hex digits and dashes.
const UUID_BYTES: usize = 36;
/// Version and variant bits.
const UUID_V4: u128 = 4 << 76 | 0b10 << 62;
/// Mask of these bits.
const UUID_FIXED: u128 = 15 << 76 | 0b11 << 62;

#[cfg(test)]
mod tests {
    use super::RequestId;
    use crate::policy::forwarded::HeaderTrust;
    use crate::policy::headers::HeaderEdits;
    use crate::policy::sample::{fields, written};

    #[test]
    fn new_ids_are_uuids_of_version_4() {
        for (random, expected) in [
            ([0, 0], "00000000-0000-4000-8000-000000000000"),
            ([u64::MAX, u64::MAX], "ffffffff-ffff-4fff-bfff-ffffffffffff"),
            (
                [0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef],
                "01234567-89ab-4def-8123-456789abcdef",
            ),
        ] {
            assert_eq!(RequestId::new(random).as_str(), expected);
        }
    }

    #[test]
    fn only_a_valid_request_id_of_a_trusted_hop_is_kept() {
        let (longest, too_long) = ("a".repeat(64), "a".repeat(65));
        let new = RequestId::new([1, 2]);
        for (header_trust, sent, expected) in [
            (HeaderTrust::Trusted, "4bf92f35-77b3", "4bf92f35-77b3"),
            (
                HeaderTrust::Trusted,
                "Root=1-67891233-abcdef:/+@~._",
                "Root=1-67891233-abcdef:/+@~._",
            ),
            (HeaderTrust::Trusted, &longest, &longest),
            (HeaderTrust::Trusted, &too_long, new.as_str()),
            (HeaderTrust::Trusted, "", new.as_str()),
            (HeaderTrust::Trusted, "a b", new.as_str()),
            (HeaderTrust::Trusted, "a\"}", new.as_str()),
            (HeaderTrust::Trusted, "a\u{e9}", new.as_str()),
            (HeaderTrust::Untrusted, "4bf92f35-77b3", new.as_str()),
        ] {
            let (fields, head) = fields(&[("X-Request-ID", sent)]);
            let id = RequestId::choose(header_trust, &fields, &head, [1, 2]);
            assert_eq!(id.as_str(), expected);
        }
        let (fields, head) = fields(&[]);
        assert_eq!(
            RequestId::choose(HeaderTrust::Trusted, &fields, &head, [1, 2]),
            new
        );
    }

    #[test]
    fn the_request_id_line_is_written_unless_a_filter_edits_it() {
        let id = RequestId::new([0, 0]);
        assert_eq!(
            written(|out| id.write_line(None, out)),
            "x-request-id: 00000000-0000-4000-8000-000000000000\r\n"
        );
        let removed = xds::model::HeaderEdit {
            remove: vec!["x-request-id".parse().expect("a name")],
            ..Default::default()
        };
        let edits = HeaderEdits::compose(&[Some(&removed)]);
        assert_eq!(written(|out| id.write_line(Some(&edits), out)), "");
    }
}
