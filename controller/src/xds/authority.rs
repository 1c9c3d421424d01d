//! A certificate authority, and the server certificates that it signs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use thiserror::Error;
use x509_parser::pem::parse_x509_pem;

/// A certificate authority that can sign.
pub(super) struct Authority {
    /// Its certificate in PEM, as passed to proxies.
    pub(super) pem: String,
    /// Its key in PEM.
    pub(super) key_pem: String,
    pub(super) not_after: SystemTime,
    issuer: Issuer<'static, KeyPair>,
}

/// Why a certificate authority is unusable.
#[derive(Debug, Error)]
pub(super) enum InvalidAuthority {
    #[error("tls.crt has no PEM certificate")]
    NotACertificate,
    #[error("tls.crt is not a CA certificate: its basic constraints must have CA set")]
    NotAnAuthority,
    #[error("tls.crt has expired")]
    Expired,
    #[error("tls.key is not a private key in PKCS#8 (`BEGIN PRIVATE KEY`): {0}")]
    Key(rcgen::Error),
    #[error("tls.key does not belong to tls.crt")]
    OtherKey,
    #[error("it cannot sign: {0}")]
    Signing(#[from] rcgen::Error),
    #[error("a certificate it signed is invalid: {0}")]
    Certificate(#[from] rustls::Error),
}

/// A new authority in PEM.
pub(super) struct Generated {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    /// Generates an authority in PEM.
    pub(super) fn generate(now: SystemTime) -> Result<Generated, InvalidAuthority> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        // Each has a unique name, so that a proxy which trusts two can select the right one.
        let serial = u64::from_be_bytes(rand::random());
        let name = format!("{GENERATED}{serial:016x}");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (params.not_before, params.not_after) = validity(now, AUTHORITY_LIFE);
        Ok(Generated {
            certificate: params.self_signed(&key)?.pem(),
            key: key.serialize_pem(),
        })
    }

    pub(super) fn parse(
        certificate: &[u8],
        key: &[u8],
        now: SystemTime,
    ) -> Result<Self, InvalidAuthority> {
        let none = || InvalidAuthority::NotACertificate;
        let text = std::str::from_utf8(certificate).map_err(|_| none())?;
        let (_, block) = parse_x509_pem(certificate).map_err(|_| none())?;
        let parsed = block.parse_x509().map_err(|_| none())?;
        if !parsed.is_ca() {
            return Err(InvalidAuthority::NotAnAuthority);
        }
        let not_after = u64::try_from(parsed.validity().not_after.timestamp());
        let not_after = Duration::from_secs(not_after.unwrap_or_default());
        let not_after = SystemTime::UNIX_EPOCH + not_after;
        if not_after <= now {
            return Err(InvalidAuthority::Expired);
        }
        let key_pem = String::from_utf8_lossy(key).into_owned();
        let key = KeyPair::from_pem(&key_pem).map_err(InvalidAuthority::Key)?;
        if key.subject_public_key_info() != parsed.public_key().raw {
            return Err(InvalidAuthority::OtherKey);
        }
        Ok(Self {
            pem: first_block(text).ok_or_else(none)?,
            key_pem,
            not_after,
            issuer: Issuer::from_ca_cert_pem(text, key)?,
        })
    }

    /// Whether less than a third of the life of a generated authority is left: the controller then
    /// replaces one that it generated, and never one of the user.
    pub(super) fn is_old(&self, now: SystemTime) -> bool {
        let left = self.not_after.duration_since(now);
        left.is_ok_and(|left| left < AUTHORITY_LIFE / 3)
    }

    /// A TLS configuration with a new certificate for these names.
    pub(super) fn server(
        &self,
        names: &[String],
        now: SystemTime,
    ) -> Result<Arc<ServerConfig>, InvalidAuthority> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        let name = names.first().map_or("controller", String::as_str);
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = validity(now, LEAF_LIFE);
        let leaf = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions()?;
        let config = config.with_no_client_auth();
        let mut config = config.with_single_cert(vec![leaf.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Whether [`Authority::generate`] made a certificate, whether or not it has expired since: its only
/// name is one of those, and it is signed by itself.
pub(super) fn is_generated(certificate: &[u8]) -> bool {
    let Ok((_, block)) = parse_x509_pem(certificate) else {
        return false;
    };
    let Ok(parsed) = block.parse_x509() else {
        return false;
    };
    let name = parsed.subject().to_string();
    let serial = name.strip_prefix("CN=");
    let serial = serial.and_then(|name| name.strip_prefix(GENERATED));
    let is_serial = |it: &str| it.len() == 16 && it.bytes().all(|it| it.is_ascii_hexdigit());
    serial.is_some_and(is_serial) && parsed.subject() == parsed.issuer()
}

/// The validity period, with a margin for the clocks of proxies.
fn validity<T: From<SystemTime>>(now: SystemTime, life: Duration) -> (T, T) {
    ((now - SKEW).into(), (now + life).into())
}

/// The certificates of a bundle, in a comparable form.
pub(super) fn certificates(bundle: &str) -> Vec<String> {
    let blocks = bundle.split_inclusive(END);
    blocks.filter_map(first_block).collect()
}

fn first_block(text: &str) -> Option<String> {
    let begin = text.find(BEGIN)?;
    let text = text.get(begin..)?;
    let end = text.find(END)?.checked_add(END.len())?;
    let lines = text.get(..end)?.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    Some(format!("{}\n", lines.join("\n")))
}

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// The name of a generated authority begins with this, and a number follows.
const GENERATED: &str = "gateway xDS ";

/// Lifetime of a generated authority.
const AUTHORITY_LIFE: Duration = Duration::from_hours(10 * 365 * 24);

/// Lifetime of a server certificate.
const LEAF_LIFE: Duration = Duration::from_hours(24);

/// Age at which it is replaced.
pub(super) const LEAF_AGE: Duration = Duration::from_hours(16);

/// Certificates are valid from this long before they are issued, for clocks that are behind.
const SKEW: Duration = Duration::from_hours(1);

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An authority that someone else made.
    pub(in crate::xds) fn users_authority(now: SystemTime, life: Duration) -> Generated {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        let name = "Example Corporation";
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) = validity(now, life);
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        let key = key.serialize_pem();
        Generated { certificate, key }
    }

    #[test]
    fn generated_authorities_are_told_from_those_of_users() {
        let now = SystemTime::now();
        let own = Authority::generate(now).expect("an authority");
        assert!(is_generated(own.certificate.as_bytes()));
        let users = users_authority(now, AUTHORITY_LIFE);
        assert!(!is_generated(users.certificate.as_bytes()));
        assert!(!is_generated(b"garbage"));
    }

    pub(in crate::xds) fn authority() -> Authority {
        let now = SystemTime::now();
        let Generated { certificate, key } = Authority::generate(now).expect("an authority");
        let parsed = Authority::parse(certificate.as_bytes(), key.as_bytes(), now);
        parsed.expect("what was made can be read")
    }

    #[test]
    fn a_generated_authority_issues_server_certificates() {
        let authority = authority();
        let names = ["controller.gateway-system.svc".to_owned()];
        let config = authority.server(&names, SystemTime::now());
        assert_eq!(config.expect("a server").alpn_protocols, [b"h2"]);
        assert!(!authority.is_old(SystemTime::now()));
        let later = SystemTime::now() + AUTHORITY_LIFE * 7 / 10;
        assert!(authority.is_old(later));
    }

    #[test]
    fn an_invalid_authority_is_rejected_with_the_reason() {
        let now = SystemTime::now();
        let one = Authority::generate(now).expect("an authority");
        let two = Authority::generate(now).expect("an authority");
        let parse = |certificate: &str, key: &str, now| {
            let parsed = Authority::parse(certificate.as_bytes(), key.as_bytes(), now);
            parsed.err().expect("it is refused").to_string()
        };
        assert!(parse(&one.certificate, &two.key, now).contains("does not belong to tls.crt"));
        assert!(parse("", &one.key, now).contains("tls.crt"));
        assert!(parse(&one.certificate, "", now).contains("PKCS#8"));
        let later = now + AUTHORITY_LIFE + SKEW;
        assert!(parse(&one.certificate, &one.key, later).contains("expired"));
        let key = KeyPair::generate().expect("a key");
        let leaf = CertificateParams::new(["a".to_owned()]).expect("parameters");
        let leaf = leaf.self_signed(&key).expect("a certificate").pem();
        assert!(parse(&leaf, &key.serialize_pem(), now).contains("not a CA certificate"));
    }

    #[test]
    fn certificates_of_a_bundle_are_compared_without_surrounding_text() {
        let (one, two) = (authority().pem, authority().pem);
        let bundle = format!("# old\r\n{}\n\n# new\n{two}", one.replace('\n', "\r\n"));
        assert_eq!(certificates(&bundle), [one, two]);
        assert!(certificates("nothing").is_empty());
    }
}
