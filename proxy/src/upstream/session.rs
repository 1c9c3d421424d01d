//! Session persistence (GEP-1619): a token that returns a client to its endpoint.
//!
//! The token contains the endpoint's stable identity and when the session began and was last used.
//! It is authenticated, so that no client can choose an endpoint or extend a session, and bound to its cookie
//! or header. Every replica with the same key reads it. If the endpoint is gone or ejected, the token is
//! ignored: the request is balanced, and its response has a new token. One of a key that was replaced is
//! answered with a new one for the same session.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::{digest, hmac};
use xds::model::{Scheme, SessionKeyId, SessionLifetime, SessionPersistence, SessionToken};

use crate::config::EndpointIdentity;
use crate::limits::INVALID_SESSION_TOKENS;
use crate::policy::keyring::{KeyAge, Keyring};

/// A session: an endpoint, and times in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PersistentSession {
    /// Identity of its endpoint.
    pub endpoint: EndpointIdentity,
    /// Time of its first request.
    pub began: u32,
    /// Time of its last recorded request.
    pub used: u32,
    /// Whether the key of its token was replaced.
    pub key_age: KeyAge,
}

impl PersistentSession {
    /// A session that begins at `now`.
    #[must_use]
    pub fn begin(endpoint: EndpointIdentity, now: u32) -> Self {
        Self {
            endpoint,
            began: now,
            used: now,
            key_age: KeyAge::Current,
        }
    }

    /// Decodes the token of this carrier; `None` unless it was sealed for it with one of the keys.
    #[must_use]
    pub fn open(token: &[u8], carrier: &SessionToken, keys: &Keyring) -> Option<Self> {
        let bytes = decode_hex(token)?;
        let (payload, tag) = bytes.split_first_chunk::<PAYLOAD_BYTES>()?;
        let (version, rest) = payload.split_first()?;
        if *version != VERSION {
            return None;
        }
        let (id, rest) = rest.split_first_chunk()?;
        // A token of another key costs no hash.
        let mut keys = keys.of_id(SessionKeyId(*id)).peekable();
        keys.peek()?;
        let sealed = sealed(payload, carrier);
        // Compares in constant time.
        let is_signed_by = |hmac| hmac::verify(hmac, &sealed, tag).is_ok();
        let (_, key_age) = keys.find(|(key, _)| is_signed_by(&key.hmac))?;
        let (endpoint, times) = rest.split_first_chunk()?;
        let (began, used) = times.split_first_chunk()?;
        Some(Self {
            endpoint: EndpointIdentity(*endpoint),
            began: u32::from_be_bytes(*began),
            used: u32::from_be_bytes(used.try_into().ok()?),
            key_age,
        })
    }

    /// Appends its token for this carrier to `out`: 122 hex digits, valid in any cookie or header. Nothing before
    /// there is a key.
    pub fn seal(&self, carrier: &SessionToken, keys: &Keyring, out: &mut Vec<u8>) {
        let Some(key) = keys.signing() else { return };
        let mut payload = [0; PAYLOAD_BYTES];
        let times = self
            .began
            .to_be_bytes()
            .into_iter()
            .chain(self.used.to_be_bytes());
        let head = [VERSION].into_iter().chain(key.id.0);
        let all = head.chain(self.endpoint.0).chain(times);
        for (byte, value) in payload.iter_mut().zip(all) {
            *byte = value;
        }
        encode_hex(&payload, out);
        let tag = hmac::sign(&key.hmac, &sealed(&payload, carrier));
        encode_hex(tag.as_ref(), out);
    }

    /// Whether neither its absolute nor its idle timeout has expired.
    #[must_use]
    pub fn is_valid(&self, policy: &SessionPersistence, now: u32) -> bool {
        let within = |since: u32, timeout: Option<Duration>| {
            let age = u64::from(now.saturating_sub(since));
            timeout.is_none_or(|timeout| Duration::from_secs(age) <= timeout)
        };
        within(self.began, policy.absolute_timeout) && within(self.used, policy.idle_timeout)
    }

    /// The session as used at `now`, if a new token has to be issued: to record that, or since its key was replaced.
    #[must_use]
    pub fn renewed(&self, policy: &SessionPersistence, now: u32) -> Option<Self> {
        let is_used_later = policy.idle_timeout.is_some() && now > self.used;
        let renew = is_used_later || self.key_age == KeyAge::Replaced;
        renew.then_some(Self {
            used: now,
            key_age: KeyAge::Current,
            ..*self
        })
    }
}

/// Searches a request for its session.
pub struct SessionSearch<'a> {
    keys: &'a Keyring,
    /// Seconds since 1970.
    now: u32,
    /// How many more tokens may be invalid.
    invalid_left: usize,
}

impl<'a> SessionSearch<'a> {
    /// A search in one request.
    #[must_use]
    pub fn new(keys: &'a Keyring, now: u32) -> Self {
        Self {
            keys,
            now,
            invalid_left: INVALID_SESSION_TOKENS,
        }
    }

    /// The valid session of a policy. `fields` are the values of the request's Cookie fields, or of the header in the
    /// policy.
    pub fn carried<'f>(
        &mut self,
        fields: impl Iterator<Item = &'f [u8]>,
        policy: &'f SessionPersistence,
    ) -> Option<PersistentSession> {
        match &policy.token {
            SessionToken::Cookie { name, .. } => {
                let mut tokens = fields.flat_map(|field| cookies(field, name.as_bytes()));
                self.first_valid(&mut tokens, policy)
            }
            SessionToken::Header(_) => {
                self.first_valid(&mut fields.map(<[u8]>::trim_ascii), policy)
            }
        }
    }

    fn first_valid(
        &mut self,
        tokens: &mut dyn Iterator<Item = &[u8]>,
        policy: &SessionPersistence,
    ) -> Option<PersistentSession> {
        while self.invalid_left > 0 {
            let session = PersistentSession::open(tokens.next()?, &policy.token, self.keys);
            let session = session.filter(|it| it.is_valid(policy, self.now));
            if session.is_some() {
                return session;
            }
            self.invalid_left -= 1;
        }
        None
    }
}

/// Values of the cookies called `name` in a Cookie field (RFC 6265 section 4.2). A name can occur
/// more than once, from different paths.
pub fn cookies<'a>(field: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    field.split(|byte| *byte == b';').filter_map(move |pair| {
        let value = pair.trim_ascii().strip_prefix(name)?.strip_prefix(b"=")?;
        let bare = value
            .strip_prefix(b"\"")
            .and_then(|v| v.strip_suffix(b"\""));
        Some(bare.unwrap_or(value))
    })
}

/// Appends the value of the field with the session's token: `Set-Cookie`, or the header in the
/// policy. `scheme` is that of the client's URL.
///
/// `SameSite=Lax` is the default of browsers. The cookie contains nothing about the user, so the
/// attributes only keep it from scripts and from plain-text connections.
pub fn write_token(
    session: &PersistentSession,
    policy: &SessionPersistence,
    scheme: Scheme,
    keys: &Keyring,
    now: u32,
    out: &mut Vec<u8>,
) {
    let SessionToken::Cookie {
        name,
        path,
        lifetime,
    } = &policy.token
    else {
        return session.seal(&policy.token, keys, out);
    };
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
    session.seal(&policy.token, keys, out);
    out.extend_from_slice(b"; Path=");
    out.extend_from_slice(path.as_str().as_bytes());
    out.extend_from_slice(b"; HttpOnly; SameSite=Lax");
    if scheme == Scheme::Https {
        out.extend_from_slice(b"; Secure");
    }
    if let (SessionLifetime::Permanent, Some(timeout)) = (lifetime, policy.absolute_timeout) {
        let age = u64::from(now.saturating_sub(session.began));
        let left = timeout.as_secs().saturating_sub(age);
        // Writing to a Vec cannot fail.
        let _ = write!(out, "; Max-Age={left}");
    }
}

/// The bytes that a tag authenticates: the content of a token, and the hash of where clients return it, so that a
/// token of another cookie or header is invalid.
fn sealed(
    payload: &[u8; PAYLOAD_BYTES],
    carrier: &SessionToken,
) -> [u8; PAYLOAD_BYTES + TAG_BYTES] {
    let (kind, name) = match carrier {
        SessionToken::Cookie { name, .. } => ("cookie", name.as_str()),
        SessionToken::Header(name) => ("header", name.as_str()),
    };
    let mut carrier = digest::Context::new(&digest::SHA256);
    carrier.update(kind.as_bytes());
    carrier.update(b"=");
    carrier.update(name.as_bytes());
    let carrier = carrier.finish();
    let mut sealed = [0; PAYLOAD_BYTES + TAG_BYTES];
    for (byte, value) in sealed
        .iter_mut()
        .zip(payload.iter().chain(carrier.as_ref()))
    {
        *byte = *value;
    }
    sealed
}

/// Tokens of version 1 had no id of a key, and were not bound to their cookie or header.
const VERSION: u8 = 2;
/// Version, id of the key, identity and two times.
const PAYLOAD_BYTES: usize = 1 + 4 + EndpointIdentity::BYTES + 4 + 4;
const TAG_BYTES: usize = digest::SHA256_OUTPUT_LEN;

fn encode_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let digit = |nibble: u8| {
        if nibble < 10 {
            b'0' + nibble
        } else {
            b'a' + nibble - 10
        }
    };
    for byte in bytes {
        out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
}

fn decode_hex(text: &[u8]) -> Option<[u8; PAYLOAD_BYTES + TAG_BYTES]> {
    let mut bytes = [0; PAYLOAD_BYTES + TAG_BYTES];
    if text.len() != bytes.len() * 2 {
        return None;
    }
    let value = |digit: &u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = digits else { return None };
        *byte = value(high)? << 4 | value(low)?;
    }
    Some(bytes)
}

/// The current time in seconds since 1970.
pub(crate) fn seconds() -> u32 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
