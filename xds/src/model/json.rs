//! The JSON form of the model, which the configuration dump shows: fields in camelCase without those
//! that are not set, durations as Gateway API writes them, keys and names as text. Secrets in headers,
//! URLs and queries are masked, certificates are given by fingerprint; a private key has no form at all.

#![expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes references"
)]

use std::fmt::Display;
use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::{GatewayDuration, Timeout};
use crate::secret;

/// A map with one entry, or what is added to the map of a tagged variant.
pub(super) fn entry<S: Serializer>(
    name: &'static str,
    value: &(impl Serialize + ?Sized),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(name, value)?;
    map.end()
}

pub(super) fn optional_text<S: Serializer>(
    value: &Option<impl Display>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

pub(super) fn texts<S: Serializer>(
    list: &[impl Display],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(Text))
}

/// A value that is written as text.
struct Text<T>(T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

pub(super) fn duration<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&GatewayDuration(*duration))
}

pub(super) fn optional_duration<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    optional_text(&duration.map(GatewayDuration), serializer)
}

/// `0s` for no timeout. The default is left out where it is a field.
impl Serialize for Timeout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Default => serializer.serialize_none(),
            Self::Never => duration(&Duration::ZERO, serializer),
            Self::After(time) => duration(time, serializer),
        }
    }
}

pub(super) fn networks<S: Serializer>(
    list: &[(IpAddr, u8)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let networks = list.iter();
    serializer.collect_seq(networks.map(|(address, length)| format!("{address}/{length}")))
}

pub(super) fn status<S: Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

pub(super) fn statuses<S: Serializer>(
    list: &[StatusCode],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(StatusCode::as_u16))
}

/// The fraction from 0 to 1 of a number of millionths.
pub(super) fn per_million<S: Serializer>(
    millionths: &u32,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(f64::from(*millionths) / 1e6)
}

/// The value of a header field, as text.
pub(super) fn lossy_value<S: Serializer>(
    value: &HeaderValue,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(value.as_bytes()))
}

/// Header fields, with the values of secret ones masked.
pub(super) fn header_lines<S: Serializer>(
    lines: &[(HeaderName, HeaderValue)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(lines.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        HeaderLine {
            name: name.as_str(),
            value: secret::header_value(name.as_str(), &value).into_owned(),
        }
    }))
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    name: &'a str,
    value: String,
}
