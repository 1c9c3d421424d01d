//! Generated certificates: authorities, and the certificates they sign.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

/// A certificate and its key.
#[derive(Debug)]
pub(crate) struct Credential {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

/// The contents of a certificate.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    names: Vec<String>,
    uris: Vec<String>,
    purpose: ExtendedKeyUsagePurpose,
    /// When it expires, since 1970; `None` is in a long time.
    expires: Option<Duration>,
    ed25519: bool,
}

/// An authority of this name.
pub(crate) fn authority(name: &str) -> Authority {
    signed_by_itself(name, &[])
}

/// A server of this name that is its own authority, as `openssl req -x509` makes them.
pub(crate) fn itself(name: &str) -> Authority {
    signed_by_itself(name, &[name.to_owned()])
}

fn signed_by_itself(name: &str, names: &[String]) -> Authority {
    let mut params = CertificateParams::new(names).expect("DNS names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name = common_name(name);
    let key = KeyPair::generate().expect("randomness");
    let certificate = params.self_signed(&key).expect("our own key");
    Authority {
        issuer: Issuer::new(params, key),
        certificate,
    }
}

/// A server of these names.
pub(crate) fn subject(names: &[&str]) -> Subject {
    Subject {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        uris: Vec::new(),
        purpose: ExtendedKeyUsagePurpose::ServerAuth,
        expires: None,
        ed25519: false,
    }
}

impl Subject {
    /// It has this URI too.
    pub(crate) fn uri(mut self, uri: &str) -> Self {
        self.uris.push(uri.to_owned());
        self
    }

    /// It is a client, not a server.
    pub(crate) fn of_client(mut self) -> Self {
        self.purpose = ExtendedKeyUsagePurpose::ClientAuth;
        self
    }

    /// It expired long ago.
    pub(crate) fn expired(mut self) -> Self {
        self.expires = Some(LONG_AGO);
        self
    }

    /// It expires after this time, or up to a second earlier.
    pub(crate) fn expires_in(mut self, time: Duration) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.expires = Some(now.expect("a clock that is set") + time);
        self
    }

    /// Its key is an Ed25519 key, not a P-256 one.
    pub(crate) fn ed25519(mut self) -> Self {
        self.ed25519 = true;
        self
    }
}

impl Authority {
    /// A certificate for a server of these names.
    pub(crate) fn server(&self, names: &[&str]) -> Credential {
        self.signs(&subject(names))
    }

    /// A certificate for a client of this name.
    pub(crate) fn client(&self, name: &str) -> Credential {
        self.signs(&subject(&[name]).of_client())
    }

    /// A certificate with these contents.
    pub(crate) fn signs(&self, subject: &Subject) -> Credential {
        let mut params = CertificateParams::new(subject.names.clone()).expect("DNS names");
        let uris = subject.uris.iter().map(|uri| {
            let uri = uri.as_str().try_into().expect("ASCII");
            SanType::URI(uri)
        });
        params.subject_alt_names.extend(uris);
        params.extended_key_usages = vec![subject.purpose.clone()];
        params.distinguished_name = common_name(subject.names.first().map_or("", String::as_str));
        if let Some(expires) = subject.expires {
            let epoch = date_time_ymd(1970, 1, 1);
            params.not_before = epoch;
            params.not_after = epoch + expires;
        }
        let algorithm = if subject.ed25519 {
            &PKCS_ED25519
        } else {
            &PKCS_ECDSA_P256_SHA256
        };
        let key = KeyPair::generate_for(algorithm).expect("randomness");
        let certificate = params.signed_by(&key, &self.issuer).expect("our own key");
        Credential { certificate, key }
    }

    /// Itself, as a server.
    pub(crate) fn itself(&self) -> Credential {
        let key = self.issuer.key().serialize_der();
        Credential {
            certificate: self.certificate.clone(),
            key: KeyPair::try_from(key).expect("our own key"),
        }
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    /// Its own certificate as text.
    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }
}

impl Credential {
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    /// The certificate as text.
    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }

    /// The key as text.
    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }
}

fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// The beginning of 2002, since 1970.
const LONG_AGO: Duration = Duration::from_hours(280_512);
