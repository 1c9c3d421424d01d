//! The string and integer formats that an API server checks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    Int32,
    Int64,
    Ipv4,
    Ipv6,
    Cidr,
    /// Used only in statuses, which files do not have.
    #[serde(rename = "date-time")]
    DateTime,
}

impl Format {
    /// Whether `value` has the format; values of other types are not checked.
    pub(crate) fn admits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Int32, Value::Number(number)) => {
                number.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
            }
            (Self::Int64, Value::Number(number)) => number.as_i64().is_some(),
            (Self::Ipv4, Value::String(text)) => text.parse::<Ipv4Addr>().is_ok(),
            (Self::Ipv6, Value::String(text)) => text.parse::<Ipv6Addr>().is_ok(),
            (Self::Cidr, Value::String(text)) => is_cidr(text),
            _ => true,
        }
    }

    /// The format in words.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::Int32 => "an integer of 32 bits",
            Self::Int64 => "an integer of 64 bits",
            Self::Ipv4 => "an IPv4 address such as 10.0.0.1",
            Self::Ipv6 => "an IPv6 address such as 2001:db8::1",
            Self::Cidr => "a network such as 10.0.0.0/8 or 2001:db8::/32",
            Self::DateTime => "a time such as 2026-01-02T03:04:05Z",
        }
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let longest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    digits && length.parse::<u8>().is_ok_and(|length| length <= longest)
}

#[cfg(test)]
mod tests {
    use super::is_cidr;

    #[test]
    fn cidrs_are_validated() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::1/128"] {
            assert!(is_cidr(text), "{text}");
        }
        for text in [
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "::/",
            "::/+1",
            "x/1",
        ] {
            assert!(!is_cidr(text), "{text}");
        }
    }
}
