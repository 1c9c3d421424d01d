//! The certificates of a configuration for the dump: names and validity, never private keys.

use std::collections::BTreeMap;

use admin_types::dump::Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{ASN1Time, FromDer as _, X509Certificate};
use xds::model::{self, Model, TlsServer};

/// All certificates that listeners serve or backends are sent, deduplicated by fingerprint.
pub(crate) fn of(model: &Model) -> Vec<Certificate> {
    let mut found: BTreeMap<String, Certificate> = BTreeMap::new();
    let mut add = |user: &str, certificate: &model::Certificate| {
        if let Some(own) = certificate.chain.first() {
            let fingerprint = own.fingerprint();
            let shown = found
                .entry(fingerprint.clone())
                .or_insert_with(|| Certificate {
                    fingerprint,
                    ..describe(own.as_bytes())
                });
            shown.used_by.push(user.to_owned());
        }
    };
    for listener in model.listeners.values() {
        let tls = listener.protocol.tls().into_iter();
        let certificates = tls.flat_map(TlsServer::pairs);
        certificates.for_each(|certificate| add(listener.key.as_str(), certificate));
    }
    for policy in model.policies.values() {
        let certificate = policy.spec.client_certificate.iter();
        certificate.for_each(|certificate| add(policy.key.as_str(), certificate));
    }
    found.into_values().collect()
}

/// The fields of a certificate; empty where it does not parse, which `translate` rules out for
/// configuration from files.
fn describe(der: &[u8]) -> Certificate {
    let Ok((_, parsed)) = X509Certificate::from_der(der) else {
        return Certificate::default();
    };
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|names| &names.value.general_names);
    Certificate {
        subject: parsed.subject().to_string(),
        issuer: parsed.issuer().to_string(),
        sans: names.map(san).collect(),
        not_before: rfc_3339(parsed.validity().not_before),
        not_after: rfc_3339(parsed.validity().not_after),
        ..Certificate::default()
    }
}

fn san(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) | GeneralName::RFC822Name(name) => {
            (*name).to_owned()
        }
        GeneralName::IPAddress(bytes) => address(bytes),
        other => other.to_string(),
    }
}

fn address(bytes: &[u8]) -> String {
    use std::net::IpAddr;
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
    address.map_or_else(|_| "?".to_owned(), |address| address.to_string())
}

/// A time in UTC as RFC 3339 writes it, such as `2026-11-20T19:00:00Z`.
fn rfc_3339(time: ASN1Time) -> String {
    let time = time.to_datetime();
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        time.year(),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

#[cfg(test)]
mod tests {
    use super::describe;

    /// A self-signed certificate with three names.
    const SAMPLE: &[u8] = include_bytes!("certificates/sample.der");

    #[test]
    fn a_certificate_is_described() {
        let shown = describe(SAMPLE);
        assert_eq!(shown.subject, "CN=web.example");
        assert_eq!(shown.sans, ["web.example", "*.web.example", "127.0.0.1"]);
        let dates = [&shown.not_before, &shown.not_after];
        for date in dates {
            assert_eq!(
                (date.len(), &date[10..11], &date[19..]),
                (20, "T", "Z"),
                "{date}"
            );
        }
        assert!(shown.not_before < shown.not_after);
    }

    #[test]
    fn an_unparsable_certificate_has_empty_fields() {
        for bytes in [&b""[..], b"\x30", &SAMPLE[..100]] {
            assert_eq!(describe(bytes).subject, "");
        }
    }
}
