//! Signature verification for `jsonwebtoken` with ring.
//!
//! `jsonwebtoken` has no backend for ring, and panics without a provider: a key set installs this
//! one before it creates its first key. Nothing is ever signed.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result, new_error};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::error::Unspecified;
use ring::hmac;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use ring::signature::{EcdsaVerificationAlgorithm, VerificationAlgorithm};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| unsupported(),
    verifier_factory: |algorithm, key| verifier(*algorithm, key),
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| unsupported(),
        rsa_pub_components_from_public_key: |_| unsupported(),
        ec_pub_components_from_private_key: |_, _| unsupported(),
        ed_pub_components_from_private_key: |_, _| unsupported(),
        compute_digest: |_, _| unsupported(),
    },
};

/// Installs ring as the provider of this process.
pub(super) fn install() {
    // The only error is that a provider is installed already: this one.
    let _ = PROVIDER.install_default();
}

fn unsupported<T>() -> Result<T> {
    Err(new_error(ErrorKind::UnsupportedAlgorithm))
}

fn verifier(algorithm: Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if algorithm.family() != key.family() {
        return Err(new_error(ErrorKind::InvalidKeyFormat));
    }
    let Some(method) = Method::of(algorithm) else {
        return unsupported();
    };
    Ok(Box::new(RingVerifier {
        algorithm,
        method,
        key: key.clone(),
    }))
}

/// A key with its verification algorithm.
struct RingVerifier {
    algorithm: Algorithm,
    method: Method,
    key: DecodingKey,
}

enum Method {
    Rsa(&'static RsaParameters),
    Curve(&'static dyn VerificationAlgorithm),
    Mac(hmac::Algorithm),
}

impl Method {
    fn of(algorithm: Algorithm) -> Option<Self> {
        let ecdsa = |method: &'static EcdsaVerificationAlgorithm| Self::Curve(method);
        Some(match algorithm {
            Algorithm::RS256 => Self::Rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Self::Rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Self::Rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Self::Rsa(&signature::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Self::Rsa(&signature::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Self::Rsa(&signature::RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => ecdsa(&signature::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => ecdsa(&signature::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => Self::Curve(&signature::ED25519),
            Algorithm::HS256 => Self::Mac(hmac::HMAC_SHA256),
            Algorithm::HS384 => Self::Mac(hmac::HMAC_SHA384),
            Algorithm::HS512 => Self::Mac(hmac::HMAC_SHA512),
            _ => return None,
        })
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (&self.method, self.key.kind()) {
            (Method::Rsa(method), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(method, message, signature)
            }
            (Method::Curve(method), DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(*method, point).verify(message, signature)
            }
            (Method::Mac(method), DecodingKeyKind::SecretOrDer(secret)) => {
                hmac::verify(&hmac::Key::new(*method, secret), message, signature)
            }
            _ => Err(Unspecified),
        };
        verified.map_err(|Unspecified| Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
