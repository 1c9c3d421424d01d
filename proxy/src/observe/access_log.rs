//! The access log: which requests are logged, and the format of a line.
//!
//! A line is written directly into the shard's chunk (`log_writer`). Data from peers is clipped and
//! escaped, so that no request can forge a line, a field or a terminal control sequence. Both
//! formats use the same field names: logfmt for people, JSON for machines.

use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rand::{Rng, RngExt};
use xds::model::{AccessLog, AccessLogFilter, LogFormat};

use crate::failure::FailureKind;
use crate::limits::LOG_FIELD_BYTES;

mod connection;
mod values;

pub use connection::ConnectionEntry;
use values::Quoting;

/// Whether a request with this result is logged.
pub fn wants(log: &AccessLog, status: u16, duration: Duration, rng: &mut impl Rng) -> bool {
    !log.off && passes(log.filter, status, duration) && is_sampled(log.sample_per_million, rng)
}

fn passes(filter: AccessLogFilter, status: u16, duration: Duration) -> bool {
    match (filter.status_at_least, filter.duration_at_least) {
        (None, None) => true,
        (least_status, least_duration) => {
            least_status.is_some_and(|least| status >= least)
                || least_duration.is_some_and(|least| duration >= least)
        }
    }
}

fn is_sampled(per_million: u32, rng: &mut impl Rng) -> bool {
    per_million >= MILLION || rng.random_range(0..MILLION) < per_million
}

const MILLION: u32 = 1_000_000;

/// The logged facts of a request. Names come from the configuration; bytes from peers.
#[derive(Debug, Clone, Copy)]
pub struct RequestEntry<'a> {
    /// When the request began.
    pub time: SystemTime,
    /// `namespace/name` of the Gateway.
    pub gateway: &'a str,
    /// Key of the listener; `None` if none matched.
    pub listener: Option<&'a str>,
    /// Key of the route rule; `None` if none matched.
    pub route: Option<&'a str>,
    /// Key of the backend or service it was sent to last.
    pub backend: Option<&'a str>,
    /// Address of the endpoint it was sent to last.
    pub endpoint: Option<&'a str>,
    /// The client's address, behind trusted hops if there are any.
    pub client: Option<IpAddr>,
    /// Method as the client sent it.
    pub method: &'a [u8],
    /// Host of the request.
    pub host: &'a [u8],
    /// Path with query, as the client sent them.
    pub path: &'a [u8],
    /// Protocol version, such as `HTTP/1.1`.
    pub protocol: &'static str,
    /// Status sent, or 499 for a client that disconnected.
    pub status: u16,
    /// `grpc-status` sent to the client, if the request was gRPC.
    pub grpc_status: Option<u32>,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// Bytes of the response's body.
    pub bytes_out: u64,
    /// From the first byte of the head to the last of the response.
    pub duration: Duration,
    /// From the start of the last attempt to its response head.
    pub upstream: Option<Duration>,
    /// Why it failed; `None` on success.
    pub reason: Option<FailureKind>,
    /// Number of attempts after the first.
    pub retries: u32,
    /// Value of the header `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
    /// Value of `X-Request-Id`, received or generated.
    pub request_id: Option<&'a [u8]>,
    /// SHA-256 of the verified client certificate.
    pub client_certificate: Option<&'a str>,
    /// The `sub` claim of its token.
    pub jwt_subject: Option<&'a [u8]>,
    /// The client whose API key it has.
    pub user: Option<&'a [u8]>,
}

impl RequestEntry<'_> {
    /// Appends its line to `out`.
    pub fn write(&self, format: LogFormat, out: &mut Vec<u8>) {
        write(self, format, out);
    }
}

impl Fields for RequestEntry<'_> {
    fn fields(&self, line: &mut impl Line) {
        line.time(self.time);
        line.name("gateway", Some(self.gateway));
        line.name("listener", self.listener);
        line.name("route", self.route);
        line.name("backend", self.backend);
        line.name("endpoint", self.endpoint);
        line.address("client", self.client);
        line.bytes("method", Some(self.method));
        line.bytes("host", Some(self.host));
        line.bytes("path", Some(self.path));
        line.name("protocol", Some(self.protocol));
        line.number("status", u64::from(self.status));
        if let Some(status) = self.grpc_status {
            line.number("grpc_status", u64::from(status));
        }
        line.number("bytes_in", self.bytes_in);
        line.number("bytes_out", self.bytes_out);
        line.millis("duration_ms", Some(self.duration));
        line.millis("upstream_ms", self.upstream);
        line.name("reason", self.reason.map(FailureKind::reason));
        line.number("retries", u64::from(self.retries));
        line.bytes("user_agent", self.user_agent);
        line.bytes("request_id", self.request_id);
        line.name("client_certificate", self.client_certificate);
        line.bytes("jwt_subject", self.jwt_subject);
        line.bytes("user", self.user);
    }
}

/// The fields of a line.
trait Fields {
    /// Passes each field to `line`.
    fn fields(&self, line: &mut impl Line);
}

/// Appends the line of a record to `out`.
fn write(record: &impl Fields, format: LogFormat, out: &mut Vec<u8>) {
    match format {
        LogFormat::Text => {
            record.fields(&mut Text(out));
            out.push(b'\n');
        }
        LogFormat::Json => {
            record.fields(&mut Json(out));
            out.extend_from_slice(b"}\n");
        }
    }
}

/// The format of a line. Fields without a value are left out.
trait Line {
    fn out(&mut self) -> &mut Vec<u8>;

    /// Writes a separator and the name of a field.
    fn key(&mut self, key: &str);

    /// Writes a value of any bytes.
    fn quoted(&mut self, value: &[u8]);

    fn time(&mut self, time: SystemTime) {
        self.key("time");
        // Digits, dashes, colons: no format needs to escape them, and both allow quotes.
        self.out().push(b'"');
        values::time(self.out(), time);
        self.out().push(b'"');
    }

    fn name(&mut self, key: &str, value: Option<&str>) {
        self.bytes(key, value.map(str::as_bytes));
    }

    fn bytes(&mut self, key: &str, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.key(key);
            self.quoted(value.get(..LOG_FIELD_BYTES).unwrap_or(value));
        }
    }

    fn address(&mut self, key: &str, value: Option<IpAddr>) {
        if let Some(value) = value {
            self.key(key);
            self.out().push(b'"');
            values::address(self.out(), value);
            self.out().push(b'"');
        }
    }

    fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        values::number(self.out(), value);
    }

    fn millis(&mut self, key: &str, value: Option<Duration>) {
        if let Some(value) = value {
            self.key(key);
            values::millis(self.out(), value);
        }
    }
}

/// logfmt: `key=value key="value with spaces"`.
struct Text<'a>(&'a mut Vec<u8>);

impl Line for Text<'_> {
    fn out(&mut self) -> &mut Vec<u8> {
        self.0
    }

    fn key(&mut self, key: &str) {
        if key != FIRST_KEY {
            self.0.push(b' ');
        }
        self.0.extend_from_slice(key.as_bytes());
        self.0.push(b'=');
    }

    fn quoted(&mut self, value: &[u8]) {
        let quoting = Quoting::of(value);
        if quoting == Quoting::Bare && !value.is_empty() {
            return self.0.extend_from_slice(value);
        }
        self.0.push(b'"');
        if quoting == Quoting::Escapes {
            for &byte in value {
                self.byte(byte);
            }
        } else {
            self.0.extend_from_slice(value);
        }
        self.0.push(b'"');
    }
}

impl Text<'_> {
    fn byte(&mut self, byte: u8) {
        match byte {
            b'"' | b'\\' => self.0.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => self.0.push(byte),
            _ => {
                let _ = write!(self.0, "\\x{byte:02x}");
            }
        }
    }
}

/// A JSON object, without its closing brace.
struct Json<'a>(&'a mut Vec<u8>);

impl Line for Json<'_> {
    fn out(&mut self) -> &mut Vec<u8> {
        self.0
    }

    fn key(&mut self, key: &str) {
        let separator = if key == FIRST_KEY { b'{' } else { b',' };
        self.0.extend_from_slice(&[separator, b'"']);
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn quoted(&mut self, value: &[u8]) {
        self.0.push(b'"');
        if Quoting::of(value) == Quoting::Escapes {
            self.escaped(value);
        } else {
            self.0.extend_from_slice(value);
        }
        self.0.push(b'"');
    }
}

impl Json<'_> {
    fn escaped(&mut self, value: &[u8]) {
        for chunk in value.utf8_chunks() {
            for char in chunk.valid().chars() {
                self.char(char);
            }
            if !chunk.invalid().is_empty() {
                self.char(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    fn char(&mut self, char: char) {
        match char {
            '"' => self.0.extend_from_slice(b"\\\""),
            '\\' => self.0.extend_from_slice(b"\\\\"),
            // All Unicode control characters are below U+0100.
            _ if char.is_control() => {
                let _ = write!(self.0, "\\u{:04x}", u32::from(char));
            }
            _ => {
                let mut utf8 = [0; 4];
                self.0
                    .extend_from_slice(char.encode_utf8(&mut utf8).as_bytes());
            }
        }
    }
}

/// The field that every line begins with.
const FIRST_KEY: &str = "time";

#[cfg(test)]
mod tests;
