//! Numbers and vectors as TLS writes them (RFC 8446 section 3).

/// Reads bytes from the front; every read fails if too few are left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The content of a vector with a 16-bit length that spans all of `bytes`.
    pub(super) fn whole_vector16(bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut cursor = Self(bytes);
        let content = cursor.vector16()?;
        cursor.is_empty().then_some(content)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn number8(&mut self) -> Option<u8> {
        let (&number, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(number)
    }

    pub(super) fn number16(&mut self) -> Option<u16> {
        let (&number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(number))
    }

    pub(super) fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = self.number8()?;
        self.bytes(usize::from(length))
    }

    pub(super) fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.number16()?;
        self.bytes(usize::from(length))
    }
}
