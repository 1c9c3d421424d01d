//! A client's certificate, and the header that passes it to backends.

use std::fmt::Write as _;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::x509::X509Name;
use xds::model::Der;

use crate::limits::CLIENT_CERTIFICATE_BYTES;
use crate::policy::headers::HeaderEdits;

/// The facts of a client certificate, for logs and backends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Whether it was verified.
    pub trust: CertificateTrust,
    /// SHA-256 of the certificate in hexadecimal.
    pub fingerprint: Box<str>,
    /// The value of `x-forwarded-client-cert`, in Envoy's format: `Hash`, `Subject` (RFC 4514), and
    /// each `URI` and `DNS` of the subject alternative names. Empty if not verified.
    pub forwarded: Box<str>,
}

/// The header that passes a client certificate to backends.
pub const FORWARDED_CLIENT_CERT: &str = "x-forwarded-client-cert";

/// Whether a certificate was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateTrust {
    /// By a trusted CA of the listener.
    Verified,
    /// Not verified: the listener accepts any.
    Unverified,
}

impl ClientCertificate {
    /// Reads the first certificate of a client's chain.
    #[must_use]
    pub fn read(chain: &[CertificateDer<'_>], verifier: &dyn ClientCertVerifier) -> Option<Self> {
        let (certificate, others) = chain.split_first()?;
        let verified = verifier.verify_client_cert(certificate, others, UnixTime::now());
        let fingerprint = Der::new(certificate).fingerprint();
        let (trust, forwarded) = match verified {
            Ok(_) => (
                CertificateTrust::Verified,
                forwarded(&fingerprint, certificate),
            ),
            Err(_) => (CertificateTrust::Unverified, String::new()),
        };
        Some(Self {
            trust,
            forwarded: forwarded.into(),
            fingerprint: fingerprint.into(),
        })
    }

    /// Writes the header for a backend, unless `edits` set it.
    pub fn write_line(&self, edits: Option<&HeaderEdits>, out: &mut Vec<u8>) {
        if edits.is_some_and(|edits| edits.drops(FORWARDED_CLIENT_CERT.as_bytes())) {
            return;
        }
        out.extend_from_slice(FORWARDED_CLIENT_CERT.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(self.forwarded.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

fn forwarded(fingerprint: &str, certificate: &CertificateDer<'_>) -> String {
    let mut value = format!("Hash={fingerprint}");
    if let Ok((_, parsed)) = X509Certificate::from_der(certificate)
        && let Some(subject) = distinguished_name(parsed.subject())
    {
        push_element("Subject", &subject, &mut value);
    }
    if let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) {
        for uri in parsed.valid_uri_names() {
            push_element("URI", uri, &mut value);
        }
        for name in parsed.valid_dns_names() {
            push_element("DNS", name, &mut value);
        }
    }
    value
}

/// A name in RFC 4514 format, the most specific part first; `None` if a part is not text.
fn distinguished_name(name: &X509Name<'_>) -> Option<String> {
    let parts: Vec<_> = name.iter_rdn().collect();
    let mut text = String::new();
    for part in parts.into_iter().rev() {
        for (nth, attribute) in part.iter().enumerate() {
            if !text.is_empty() {
                text.push(if nth == 0 { ',' } else { '+' });
            }
            let kind = attribute.attr_type();
            match oid2abbrev(kind, oid_registry()) {
                Ok(known) => text.push_str(known),
                Err(_) => text.push_str(&kind.to_id_string()),
            }
            text.push('=');
            push_value(attribute.as_str().ok()?, &mut text);
        }
    }
    Some(text)
}

/// Appends a value with escapes (RFC 4514 section 2.4).
fn push_value(value: &str, text: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (nth, character) in value.chars().enumerate() {
        let is_special = matches!(character, '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=')
            || (nth == 0 && matches!(character, ' ' | '#'))
            || (nth == last && character == ' ');
        if is_special {
            text.push('\\');
        }
        text.push(character);
    }
}

/// Appends an element, unless the line gets too long for a backend: quoted if needed, with
/// characters other than printable ASCII escaped as in RFC 4514 section 2.4.
fn push_element(key: &str, text: &str, value: &mut String) {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => escaped.extend(['\\', char::from(byte)]),
            b' '..=b'~' => escaped.push(char::from(byte)),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\{byte:02X}");
            }
        }
    }
    if value.len().saturating_add(escaped.len()) > CLIENT_CERTIFICATE_BYTES {
        return;
    }
    let quote = if escaped.contains(['"', ',', ';', '=']) {
        "\""
    } else {
        ""
    };
    for part in [";", key, "=", quote, &escaped, quote] {
        value.push_str(part);
    }
}

#[cfg(test)]
mod tests {
    use super::{push_element, push_value};
    use crate::limits::CLIENT_CERTIFICATE_BYTES;

    fn pushed(key: &str, text: &str) -> String {
        let mut value = "Hash=00".to_owned();
        push_element(key, text, &mut value);
        value
    }

    #[test]
    fn elements_are_quoted_so_that_they_cannot_be_split() {
        assert_eq!(pushed("URI", "spiffe://a/b"), "Hash=00;URI=spiffe://a/b");
        assert_eq!(
            pushed("Subject", "CN=a, O=b"),
            "Hash=00;Subject=\"CN=a, O=b\""
        );
        assert_eq!(
            pushed("URI", "x://a\";URI=x://b"),
            "Hash=00;URI=\"x://a\\\";URI=x://b\""
        );
        assert_eq!(pushed("URI", "x://a\\"), "Hash=00;URI=x://a\\\\");
        assert_eq!(
            pushed("Subject", "ü\r\n"),
            "Hash=00;Subject=\\C3\\BC\\0D\\0A"
        );
    }

    #[test]
    fn attribute_values_are_escaped_so_that_they_cannot_be_split() {
        let written = |value: &str| {
            let mut text = String::new();
            push_value(value, &mut text);
            text
        };
        assert_eq!(written("web"), "web");
        assert_eq!(written("x, O=admins"), "x\\, O\\=admins");
        assert_eq!(written(" #a+b "), "\\ #a\\+b\\ ");
        assert_eq!(written("#a\\"), "\\#a\\\\");
    }

    #[test]
    fn oversized_values_are_left_out() {
        let long = "a".repeat(CLIENT_CERTIFICATE_BYTES);
        assert_eq!(pushed("DNS", &long), "Hash=00");
    }
}
