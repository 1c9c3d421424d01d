//! What the gateway answers itself, in the place of backends.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use thiserror::Error;

use super::{Target, json};

/// The answer to every request of a target, in the place of its backends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RespondPolicy {
    /// Its status.
    pub status: AnswerStatus,
    /// Its content.
    #[serde(flatten)]
    pub content: AnswerContent,
    /// Its further header fields.
    #[serde(
        serialize_with = "json::header_lines",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// When clients may ask again, in seconds.
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<NonZeroU32>,
    /// A CEL expression that is true for the requests that go on to their backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub except: Option<String>,
}

impl RespondPolicy {
    /// Most header fields of an answer.
    pub const MOST_HEADERS: usize = 16;
}

/// A status that the gateway may answer with: 200 to 599, without 206 (which says what part of a content it is
/// of).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerStatus(StatusCode);

/// A number that is no [`AnswerStatus`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidAnswerStatus {
    /// It is out of range.
    #[error("{0} is no status of an answer: use 200 to 599")]
    OutOfRange(u32),
    /// It is for a part of a content.
    #[error(
        "206 is of a part of a content, which the gateway does not send: use 200, or another status"
    )]
    Partial,
}

impl AnswerStatus {
    /// 503.
    pub const UNAVAILABLE: Self = Self(StatusCode::SERVICE_UNAVAILABLE);

    /// The status of this number.
    ///
    /// # Errors
    ///
    /// The gateway does not answer with it.
    pub fn new(number: u32) -> Result<Self, InvalidAnswerStatus> {
        if number == 206 {
            return Err(InvalidAnswerStatus::Partial);
        }
        let code = u16::try_from(number).ok();
        let code = code.filter(|code| (200..600).contains(code));
        let status = code.and_then(|code| StatusCode::from_u16(code).ok());
        status
            .map(Self)
            .ok_or(InvalidAnswerStatus::OutOfRange(number))
    }

    /// The status.
    #[must_use]
    pub fn code(self) -> StatusCode {
        self.0
    }

    /// Whether an answer of this status may have a content (RFC 9110 sections 15.3.5, 15.3.6 and 15.4.5).
    #[must_use]
    pub fn has_content(self) -> bool {
        ![204, 205, 304].contains(&self.0.as_u16())
    }
}

impl Serialize for AnswerStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.0.as_u16())
    }
}

/// A page in the place of the content of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorPage {
    /// The statuses that it is for; at least one.
    pub statuses: Vec<StatusRange>,
    /// Whose errors it is for.
    pub source: ErrorSource,
    /// Where its content comes from.
    #[serde(flatten)]
    pub content: PageContent,
}

/// Where the content of a page comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum PageContent {
    /// These, in several types, of which clients choose; at least one.
    #[serde(rename = "bodies")]
    Bodies(Vec<Content>),
    /// A page server, which is asked for it when an error occurs.
    #[serde(rename = "backend")]
    Server(Target),
}

impl PageContent {
    /// The bodies that are known beforehand.
    #[must_use]
    pub fn bodies(&self) -> &[Content] {
        match self {
            Self::Bodies(bodies) => bodies,
            Self::Server(_) => &[],
        }
    }

    /// Bytes of the bodies.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bodies().iter().map(|it| it.body.len()).sum()
    }
}

impl ErrorPage {
    /// Its page server; `None` if its content is known beforehand.
    #[must_use]
    pub fn server(&self) -> Option<&Target> {
        match &self.content {
            PageContent::Bodies(_) => None,
            PageContent::Server(target) => Some(target),
        }
    }

    /// Most pages of a policy.
    pub const MOST_PAGES: usize = 16;
    /// Most ranges of statuses of a page.
    pub const MOST_STATUSES: usize = 16;
    /// Most types of the content of a page.
    pub const MOST_BODIES: usize = 8;
    /// Most bytes of the bodies of a policy's pages: 1 MiB, so that the policy can be sent to proxies.
    pub const MOST_BYTES: usize = 1024 * 1024;
}

/// Whose errors a page is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum ErrorSource {
    /// Those that the gateway generates.
    #[default]
    Gateway,
    /// Those of backends.
    Backend,
    /// Both.
    Any,
}

/// A range of statuses of answers, both ends included; most are of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

/// What is no [`StatusRange`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidStatusRange {
    /// It is none at all, of errors.
    #[error("`{0}` is no status of an error: use 400 to 599, or a range such as 502-504")]
    Text(String),
    /// It is none at all, of answers.
    #[error("`{0}` is no status of an answer: use 200 to 599, or a range such as 200-299")]
    Answer(String),
    /// It ends before it begins.
    #[error("the range ends before it begins: write {1}-{0}")]
    Reversed(u32, u32),
}

impl StatusRange {
    /// The statuses from the first to the last one.
    ///
    /// # Errors
    ///
    /// They are no statuses of errors.
    pub fn new(first: u32, last: u32) -> Result<Self, InvalidStatusRange> {
        Self::within(400..600, (first, last), InvalidStatusRange::Text)
    }

    /// The same, of answers of any kind.
    ///
    /// # Errors
    ///
    /// They are no statuses of answers: 1xx is none.
    pub fn of_answers(first: u32, last: u32) -> Result<Self, InvalidStatusRange> {
        Self::within(200..600, (first, last), InvalidStatusRange::Answer)
    }

    /// Reads one status of errors, or two with a hyphen.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub fn parse(text: &str) -> Result<Self, InvalidStatusRange> {
        match numbers(text) {
            Some((first, last)) => Self::new(first, last),
            None => Err(InvalidStatusRange::Text(text.to_owned())),
        }
    }

    /// Reads one status of answers of any kind, or two with a hyphen.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub fn parse_of_answers(text: &str) -> Result<Self, InvalidStatusRange> {
        match numbers(text) {
            Some((first, last)) => Self::of_answers(first, last),
            None => Err(InvalidStatusRange::Answer(text.to_owned())),
        }
    }

    fn within(
        allowed: Range<u32>,
        (first, last): (u32, u32),
        other: fn(String) -> InvalidStatusRange,
    ) -> Result<Self, InvalidStatusRange> {
        let is_allowed = |status| allowed.contains(&u32::from(status));
        let both = u16::try_from(first).ok().zip(u16::try_from(last).ok());
        match both.filter(|(first, last)| is_allowed(*first) && is_allowed(*last)) {
            None if first == last => Err(other(first.to_string())),
            None => Err(other(format!("{first}-{last}"))),
            Some((first, last)) if last < first => {
                Err(InvalidStatusRange::Reversed(first.into(), last.into()))
            }
            Some((first, last)) => Ok(Self { first, last }),
        }
    }

    /// Whether a status is in it.
    #[must_use]
    pub fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }

    /// The first status.
    #[must_use]
    pub fn first(self) -> u16 {
        self.first
    }

    /// The last status.
    #[must_use]
    pub fn last(self) -> u16 {
        self.last
    }
}

/// The numbers of a text such as `502` or `502-504`.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        let is_status = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_status.then(|| text.parse().ok()).flatten()
    };
    number(first).zip(number(last))
}

impl Serialize for StatusRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.first == self.last {
            serializer.collect_str(&self.first)
        } else {
            serializer.collect_str(&format_args!("{}-{}", self.first, self.last))
        }
    }
}

/// The content of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerContent {
    /// None.
    Empty,
    /// A text of the gateway, since the entry of the ConfigMap that has the content was never read.
    Missing,
    /// This.
    Given(Content),
}

impl AnswerContent {
    /// Bytes of its body.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Empty | Self::Missing => 0,
            Self::Given(content) => content.body.len(),
        }
    }
}

/// The fields of what it is in: none where it is empty.
impl Serialize for AnswerContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Empty => serializer.serialize_map(Some(0))?.end(),
            Self::Missing => json::entry("content", "missing", serializer),
            Self::Given(content) => content.serialize(serializer),
        }
    }
}

/// A body and its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// The value of `Content-Type`.
    #[serde(rename = "contentType", serialize_with = "json::lossy_value")]
    pub media_type: HeaderValue,
    /// The body. In text `{request_id}`, `{status}` and `{host}` stand for those of a request.
    pub body: Body,
}

impl Content {
    /// The type of a content that says none.
    pub const DEFAULT_TYPE: &'static str = "text/plain; charset=utf-8";
}

/// The bytes of a body. A clone shares them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Body(Arc<[u8]>);

impl Body {
    /// A body of these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same, shared.
    #[must_use]
    pub fn to_shared(&self) -> Arc<[u8]> {
        Arc::clone(&self.0)
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Most bytes of a body that is written in a policy.
    pub const MOST_WRITTEN: usize = 4 * 1024;
    /// Most bytes of a body of a ConfigMap.
    pub const MOST: usize = 256 * 1024;
}

/// The number of bytes, and the first of them.
impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let beginning = self.0.get(..SHOWN).unwrap_or(&self.0);
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("bytes", &self.len())?;
        map.serialize_entry("beginning", &String::from_utf8_lossy(beginning))?;
        map.end()
    }
}

/// Bytes of a body in a dump.
const SHOWN: usize = 256;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_has_a_status_of_a_whole_response() {
        for number in [200, 204, 299, 302, 404, 503, 599] {
            let status = AnswerStatus::new(number).expect("a status");
            assert_eq!(u32::from(status.code().as_u16()), number);
        }
        for number in [0, 100, 101, 199, 206, 600, 1000, 65_736] {
            assert!(AnswerStatus::new(number).is_err(), "{number}");
        }
        let without =
            [204, 205, 304].map(|it| AnswerStatus::new(it).map(AnswerStatus::has_content));
        assert_eq!(without, [Ok(false); 3]);
    }

    #[test]
    fn statuses_are_of_errors() {
        let texts = |text: &str| StatusRange::parse(text).map(|it| (it.first(), it.last()));
        assert_eq!(texts("404"), Ok((404, 404)));
        assert_eq!(texts("502-504"), Ok((502, 504)));
        assert_eq!(texts("400-599"), Ok((400, 599)));
        for (text, why) in [
            ("399", "`399` is no status of an error"),
            ("200-599", "`200-599` is no status of an error"),
            ("600", "`600` is no status of an error"),
            ("5xx", "`5xx` is no status of an error"),
            ("", "`` is no status of an error"),
            ("404,405", "`404,405` is no status of an error"),
            ("+404", "`+404` is no status of an error"),
            ("504-502", "the range ends before it begins: write 502-504"),
        ] {
            let error = texts(text).expect_err(text).to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_health_check_may_expect_any_final_status() {
        let range = StatusRange::parse_of_answers("200-299").expect("a range");
        let contained = [199, 200, 299, 300].map(|status| range.contains(status));
        assert_eq!(contained, [false, true, true, false]);
        for text in ["100", "199-200", "600", "2xx", ""] {
            let error = StatusRange::parse_of_answers(text).expect_err(text);
            let why = format!("`{text}` is no status of an answer: use 200 to 599");
            assert!(error.to_string().starts_with(&why), "{error}");
        }
    }

    #[test]
    fn a_dump_has_the_beginning_of_a_body() {
        let policy = |content| RespondPolicy {
            status: AnswerStatus::new(503).expect("a status"),
            content,
            headers: Vec::new(),
            retry_after: NonZeroU32::new(300),
            except: None,
        };
        let shown = |content| serde_json::to_value(policy(content)).expect("JSON");
        let given = AnswerContent::Given(Content {
            media_type: HeaderValue::from_static("text/html"),
            body: Body::new(&[b'a'; 300]),
        });
        let expected = json!({
            "status": 503,
            "contentType": "text/html",
            "body": {"bytes": 300, "beginning": "a".repeat(256)},
            "retryAfterSeconds": 300,
        });
        assert_eq!(shown(given), expected);
        let missing = json!({"status": 503, "content": "missing", "retryAfterSeconds": 300});
        assert_eq!(shown(AnswerContent::Missing), missing);
        let empty = json!({"status": 503, "retryAfterSeconds": 300});
        assert_eq!(shown(AnswerContent::Empty), empty);
    }
}
