//! An HTTP/1 message as read strictly from the wire: no leniency, no knowledge of the proxy.

use std::fmt;

use super::Broken;

/// How a body was delimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    #[default]
    Nothing,
    Length(u64),
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// A message, requests and responses alike. Text is Latin-1: one char a byte.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// The three parts of the start line.
    pub(crate) start: [String; 3],
    /// Field lines in order, with unchanged names.
    pub(crate) fields: Vec<(String, String)>,
    /// How the body was delimited.
    pub(crate) framing: Framing,
    /// The body, without its framing.
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    /// Whether the body was read to its end.
    pub(crate) complete: bool,
    /// Which connection of an origin it came on, counted from 0.
    pub(crate) connection: usize,
    /// The raw bytes.
    pub(crate) raw: Vec<u8>,
}

impl Message {
    pub(crate) fn method(&self) -> &str {
        &self.start[0]
    }

    pub(crate) fn target(&self) -> &str {
        &self.start[1]
    }

    /// A response's status; 0 if it has none.
    pub(crate) fn status(&self) -> u16 {
        self.start[1].parse().unwrap_or_default()
    }

    pub(crate) fn version(&self) -> &str {
        self.start
            .iter()
            .find(|part| part.starts_with("HTTP/"))
            .map_or("", String::as_str)
    }

    /// All values of a name.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let named = |(n, _): &&(String, String)| n.eq_ignore_ascii_case(name);
        self.fields
            .iter()
            .filter(named)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The only value of a field; fails if there are two.
    #[track_caller]
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let values = self.values(name);
        assert!(values.len() < 2, "{name} occurs twice in {self}");
        values.first().copied()
    }

    /// Whether a field is present.
    pub(crate) fn has(&self, name: &str) -> bool {
        !self.values(name).is_empty()
    }

    /// Whether Connection says close.
    pub(crate) fn says_close(&self) -> bool {
        self.values("connection")
            .iter()
            .any(|value| value.eq_ignore_ascii_case("close"))
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        latin1(&self.body)
    }

    /// How a request with this head is delimited (RFC 9112 section 6.3), strictly.
    pub(crate) fn request_framing(&self) -> Result<Framing, Broken> {
        self.declared_framing().map(Option::unwrap_or_default)
    }

    /// How a response with this head to a request with `method` is delimited.
    pub(crate) fn response_framing(&self, method: &str) -> Result<Framing, Broken> {
        let bodiless = method == "HEAD" || matches!(self.status(), 100..=199 | 204 | 304);
        let declared = self.declared_framing()?;
        if bodiless {
            return Ok(Framing::Nothing);
        }
        Ok(declared.unwrap_or(Framing::UntilClose))
    }

    fn declared_framing(&self) -> Result<Option<Framing>, Broken> {
        let lengths = self.values("content-length");
        let codings = self.values("transfer-encoding");
        match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => Ok(None),
            ([], ["chunked"]) if self.version() == "HTTP/1.1" => Ok(Some(Framing::Chunked)),
            ([length], []) if length.bytes().all(|b| b.is_ascii_digit()) => {
                let length = length
                    .parse()
                    .map_err(|_| malformed("Content-Length", length))?;
                Ok(Some(Framing::Length(length)))
            }
            _ => Err(malformed(
                "framing",
                &format!("{lengths:?} with {codings:?}"),
            )),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.raw.get(..2048).unwrap_or(&self.raw);
        write!(f, "{}", shown.escape_ascii())
    }
}

/// Splits a start line into its three parts.
pub(crate) fn start_line(line: &str) -> Result<[String; 3], Broken> {
    let parts: Vec<&str> = line.splitn(3, ' ').collect();
    let [first, second, third] = parts[..] else {
        return Err(malformed("start line", line));
    };
    // The first part is a method or a version; a reason phrase may have spaces, a version may not.
    let request = third.starts_with("HTTP/1.") && third.len() == 8;
    let response = first.starts_with("HTTP/1.") && first.len() == 8 && second.len() == 3;
    if first.is_empty() || second.is_empty() || !(request || response) {
        return Err(malformed("start line", line));
    }
    Ok([first.to_owned(), second.to_owned(), third.to_owned()])
}

/// Splits a field line into name and value.
pub(crate) fn field_line(line: &str) -> Result<(String, String), Broken> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let Some((name, value)) = line.split_once(':') else {
        return Err(malformed("field line", line));
    };
    let value = value.trim_matches([' ', '\t']);
    if name.is_empty()
        || !name.chars().all(token)
        || value.chars().any(|c| c.is_ascii_control() && c != '\t')
    {
        return Err(malformed("field line", line));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Bytes as chars, one each.
pub(crate) fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Describes a malformed message.
pub(crate) fn malformed(what: &str, text: &str) -> Broken {
    Broken::Malformed(format!("{what}: {}", text.escape_debug()))
}
