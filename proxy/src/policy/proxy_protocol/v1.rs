//! Version 1: a line of text.

use std::net::{IpAddr, SocketAddr};

use super::{Endpoints, Malformed, Progress};

/// The longest line, CRLF included.
pub(super) const MAX_BYTES: usize = 107;
pub(super) const START: &[u8] = b"PROXY ";

/// Parses bytes that begin with [`START`].
pub(super) fn parse(bytes: &[u8]) -> Result<Progress, Malformed> {
    let window = bytes.get(..MAX_BYTES).unwrap_or(bytes);
    let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
        return if window.len() < MAX_BYTES && !has_inner_cr(window) {
            Ok(Progress::Partial)
        } else {
            Err(Malformed::Line)
        };
    };
    let (line, _) = window.split_at(end);
    let line = line.strip_suffix(b"\r").ok_or(Malformed::Line)?;
    let words = line.strip_prefix(START).ok_or(Malformed::Form)?;
    if words.contains(&b'\r') {
        return Err(Malformed::Line);
    }
    let words = std::str::from_utf8(words).map_err(|_| Malformed::Form)?;
    Ok(Progress::Complete {
        len: end.saturating_add(1),
        endpoints: parse_words(words)?,
    })
}

/// Whether there is a CR anywhere but at the end, where its LF may follow.
fn has_inner_cr(window: &[u8]) -> bool {
    window
        .split_last()
        .is_some_and(|(_, before)| before.contains(&b'\r'))
}

fn parse_words(words: &str) -> Result<Option<Endpoints>, Malformed> {
    let mut words = words.split(' ');
    let is_v4 = match words.next() {
        // The rest of the line is ignored.
        Some("UNKNOWN") => return Ok(None),
        Some("TCP4") => true,
        Some("TCP6") => false,
        _ => return Err(Malformed::Form),
    };
    let mut next = || words.next().ok_or(Malformed::Form);
    let (source, destination) = (address(next()?, is_v4)?, address(next()?, is_v4)?);
    let (source_port, destination_port) = (port(next()?)?, port(next()?)?);
    if words.next().is_some() {
        return Err(Malformed::Form);
    }
    Ok(Some(Endpoints {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    }))
}

fn address(word: &str, is_v4: bool) -> Result<IpAddr, Malformed> {
    let address: IpAddr = word.parse().map_err(|_| Malformed::Address)?;
    if address.is_ipv4() == is_v4 {
        Ok(address)
    } else {
        Err(Malformed::Address)
    }
}

/// Digits only, without leading zeros.
fn port(word: &str) -> Result<u16, Malformed> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || (word.len() > 1 && word.starts_with('0')) {
        return Err(Malformed::Port);
    }
    word.parse().map_err(|_| Malformed::Port)
}
