//! Parses a ClientHello without taking part in the handshake: server name and protocols (RFC 8446
//! section 4.1.2, RFC 5246 section 7.4.1.2).
//!
//! Sans-io: call it with the first bytes of a connection, again with more after them while the
//! result is [`Progress::NeedMore`], and keep them for the handshake. Every byte is examined once,
//! however records and reads are split.

use std::net::IpAddr;

use thiserror::Error;

use crate::http::authority::Authority;
use crate::limits::CLIENT_HELLO_BYTES;

mod wire;

use wire::Cursor;

/// The contents of a ClientHello.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientHello {
    server_name: Option<Box<str>>,
    /// As on the wire: names, each preceded by its length.
    alpn: Vec<u8>,
    versions: Vec<u16>,
}

/// The result of reading the first bytes of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Possibly the start of a ClientHello: read more. At most [`CLIENT_HELLO_BYTES`] give this
    /// result.
    NeedMore,
    /// The ClientHello is complete.
    Hello(ClientHello),
    /// The bytes do not start a TLS handshake record.
    NotTls,
}

/// Why a ClientHello is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HelloError {
    /// A record that is empty, too long, or of another type than the first.
    #[error("a TLS record before the end of the ClientHello is empty, too long or of another type")]
    Record,
    /// The first message is of another type.
    #[error("the first TLS message is not a ClientHello")]
    Message,
    /// Larger than the limit, record headers included.
    #[error("the ClientHello has more than {CLIENT_HELLO_BYTES} bytes")]
    TooLarge,
    /// Inconsistent lengths, or an empty list that must not be.
    #[error("the ClientHello's fields exceed its length")]
    Fields,
    /// The same extension twice, which RFC 8446 section 4.2 forbids.
    #[error("the ClientHello has a duplicate extension")]
    Repeated,
    /// A server name that is not a DNS name.
    #[error("the ClientHello's server name is not a DNS name")]
    ServerName,
}

/// Progress of reading a connection's first bytes.
#[derive(Debug, Default)]
pub struct HelloReader {
    /// Bytes of the stream read so far.
    seen: usize,
    /// Remaining bytes of the current record.
    record_left: usize,
    /// The message so far, without record headers.
    message: Vec<u8>,
}

impl ClientHello {
    /// The server name, in lower case and without a final dot. `None` if absent, or an address,
    /// which RFC 6066 section 3 forbids but some clients send.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The offered ALPN protocols, preferred first; including GREASE values (RFC 8701).
    pub fn alpn(&self) -> impl Iterator<Item = &[u8]> {
        let mut names = Cursor::new(&self.alpn);
        std::iter::from_fn(move || names.vector8())
    }

    /// The supported versions, as on the wire (0x0304 is TLS 1.3), preferred first; including
    /// GREASE values.
    #[must_use]
    pub fn versions(&self) -> &[u16] {
        &self.versions
    }
}

impl HelloReader {
    /// Continues reading `stream`, which is the connection from its first byte.
    ///
    /// # Errors
    ///
    /// The bytes begin like TLS, but are not an acceptable `ClientHello`.
    pub fn read(&mut self, stream: &[u8]) -> Result<Progress, HelloError> {
        loop {
            let rest = stream.get(self.seen..).unwrap_or_default();
            if self.record_left == 0 {
                match record_length(rest, self.seen == 0)? {
                    Header::Partial => return Ok(Progress::NeedMore),
                    Header::NotTls => return Ok(Progress::NotTls),
                    Header::Record { length } => {
                        self.record_left = length;
                        self.seen = self.seen.saturating_add(RECORD_HEADER_BYTES);
                        continue;
                    }
                }
            }
            // Never beyond the message's end, so that the result does not depend on how it is
            // split.
            let missing = self.message_length()?.saturating_sub(self.message.len());
            let taken = rest.len().min(self.record_left).min(missing);
            if taken == 0 {
                return Ok(Progress::NeedMore);
            }
            self.seen = self.seen.saturating_add(taken);
            self.record_left = self.record_left.saturating_sub(taken);
            let fragment = rest.get(..taken).unwrap_or_default();
            self.message.extend_from_slice(fragment);
            if self.seen > CLIENT_HELLO_BYTES {
                return Err(HelloError::TooLarge);
            }
            // Checked as soon as possible: the record may end before the message's header does.
            let length = self.message_length()?;
            if self.message.len() >= MESSAGE_HEADER_BYTES && self.message.len() == length {
                return parse_message(&self.message).map(Progress::Hello);
            }
        }
    }

    /// Length of the message, or of its header if that is incomplete.
    fn message_length(&self) -> Result<usize, HelloError> {
        if self
            .message
            .first()
            .is_some_and(|&kind| kind != CLIENT_HELLO)
        {
            return Err(HelloError::Message);
        }
        let Some(&[_, high, middle, low]) = self.message.first_chunk::<MESSAGE_HEADER_BYTES>()
        else {
            return Ok(MESSAGE_HEADER_BYTES);
        };
        let body = u32::from_be_bytes([0, high, middle, low]);
        let length = usize::try_from(body)
            .unwrap_or(usize::MAX)
            .saturating_add(MESSAGE_HEADER_BYTES);
        if length > CLIENT_HELLO_BYTES {
            return Err(HelloError::TooLarge);
        }
        Ok(length)
    }
}

/// The result of reading a record header.
enum Header {
    Partial,
    NotTls,
    Record { length: usize },
}

/// Checks a record header byte by byte, so that other protocols are detected without waiting.
fn record_length(bytes: &[u8], is_first: bool) -> Result<Header, HelloError> {
    let of_tls = |at: usize, byte: u8| bytes.get(at).is_none_or(|&found| found == byte);
    if !of_tls(0, HANDSHAKE_RECORD) || !of_tls(1, MAJOR_VERSION) {
        return if is_first {
            Ok(Header::NotTls)
        } else {
            Err(HelloError::Record)
        };
    }
    let Some(&[_, _, _, high, low]) = bytes.first_chunk::<RECORD_HEADER_BYTES>() else {
        return Ok(Header::Partial);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    // RFC 8446 section 5.1: handshake messages must not have empty fragments.
    if length == 0 || length > RECORD_BYTES {
        return Err(HelloError::Record);
    }
    Ok(Header::Record { length })
}

fn parse_message(message: &[u8]) -> Result<ClientHello, HelloError> {
    let body = message.get(MESSAGE_HEADER_BYTES..).unwrap_or_default();
    let (legacy_version, extensions) = split_body(body).ok_or(HelloError::Fields)?;
    let mut extensions = Cursor::new(extensions);
    let mut found = Extensions::default();
    while !extensions.is_empty() {
        let kind = extensions.number16().ok_or(HelloError::Fields)?;
        let data = extensions.vector16().ok_or(HelloError::Fields)?;
        found.put(kind, data)?;
    }
    Ok(ClientHello {
        server_name: match found.server_name {
            Some(data) => server_name(data)?,
            None => None,
        },
        alpn: match found.alpn {
            Some(data) => protocol_names(data).ok_or(HelloError::Fields)?,
            None => Vec::new(),
        },
        versions: match found.versions {
            Some(data) => supported_versions(data).ok_or(HelloError::Fields)?,
            None => vec![legacy_version],
        },
    })
}

/// The version requested by clients before TLS 1.3, and the extensions.
fn split_body(body: &[u8]) -> Option<(u16, &[u8])> {
    let mut body = Cursor::new(body);
    let version = body.number16()?;
    body.bytes(RANDOM_BYTES)?;
    body.vector8().filter(|id| id.len() <= SESSION_ID_BYTES)?;
    let ciphers = body.vector16()?;
    (!ciphers.is_empty() && ciphers.len().is_multiple_of(2)).then_some(())?;
    body.vector8().filter(|methods| !methods.is_empty())?;
    if body.is_empty() {
        return Some((version, &[]));
    }
    let extensions = body.vector16()?;
    body.is_empty().then_some((version, extensions))
}

/// The extensions that are used.
#[derive(Default)]
struct Extensions<'a> {
    server_name: Option<&'a [u8]>,
    alpn: Option<&'a [u8]>,
    versions: Option<&'a [u8]>,
}

impl<'a> Extensions<'a> {
    fn put(&mut self, kind: u16, data: &'a [u8]) -> Result<(), HelloError> {
        let place = match kind {
            SERVER_NAME => &mut self.server_name,
            ALPN => &mut self.alpn,
            SUPPORTED_VERSIONS => &mut self.versions,
            _ => return Ok(()),
        };
        match place.replace(data) {
            None => Ok(()),
            Some(_) => Err(HelloError::Repeated),
        }
    }
}

/// RFC 6066 section 3: a list, of one host name.
fn server_name(data: &[u8]) -> Result<Option<Box<str>>, HelloError> {
    let name = only_host_name(data).ok_or(HelloError::Fields)?;
    let text = std::str::from_utf8(name).map_err(|_| HelloError::ServerName)?;
    if text.parse::<IpAddr>().is_ok() {
        return Ok(None);
    }
    let is_name = Authority::parse(name)
        .is_some_and(|found| found.host == name && !found.host.starts_with(b"["));
    if !is_name {
        return Err(HelloError::ServerName);
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    Ok(Some(text.to_ascii_lowercase().into_boxed_str()))
}

fn only_host_name(data: &[u8]) -> Option<&[u8]> {
    let mut list = Cursor::new(Cursor::whole_vector16(data)?);
    list.number8().filter(|&kind| kind == HOST_NAME)?;
    let name = list.vector16()?;
    list.is_empty().then_some(name)
}

/// RFC 7301 section 3.1: names of a byte or more, at least one.
fn protocol_names(data: &[u8]) -> Option<Vec<u8>> {
    let list = Cursor::whole_vector16(data).filter(|list| !list.is_empty())?;
    let mut names = Cursor::new(list);
    while !names.is_empty() {
        names.vector8().filter(|name| !name.is_empty())?;
    }
    Some(list.to_vec())
}

/// RFC 8446 section 4.2.1.
fn supported_versions(data: &[u8]) -> Option<Vec<u16>> {
    let mut data = Cursor::new(data);
    let mut list = Cursor::new(data.vector8().filter(|list| !list.is_empty())?);
    let mut versions = Vec::new();
    while !list.is_empty() {
        versions.push(list.number16()?);
    }
    data.is_empty().then_some(versions)
}

/// Content type of handshake records.
const HANDSHAKE_RECORD: u8 = 22;
/// Of SSL 3.0 and all TLS versions.
const MAJOR_VERSION: u8 = 3;
const RECORD_HEADER_BYTES: usize = 5;
/// RFC 8446 section 5.1.
const RECORD_BYTES: usize = 1 << 14;
/// Handshake type `client_hello` (RFC 8446 section 4).
const CLIENT_HELLO: u8 = 1;
const MESSAGE_HEADER_BYTES: usize = 4;
const RANDOM_BYTES: usize = 32;
const SESSION_ID_BYTES: usize = 32;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
/// The only type of server name.
const HOST_NAME: u8 = 0;

#[cfg(test)]
mod tests;
