//! The keys of an issuer: a JWKS (RFC 7517), parsed off the shards.
//!
//! The use of a key is defined by the key: its type determines its algorithms, and a token's header
//! only selects one of those.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, OctetKeyPairParameters, PublicKeyUse,
    RSAKeyParameters,
};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation};
use serde_json::Value;
use thiserror::Error;

use super::crypto;
use crate::limits::{JWKS_BYTES, JWKS_KEYS, JWT_KEYS_TRIED, JWT_RSA_BITS_MAX, JWT_RSA_BITS_MIN};

/// The usable keys of an issuer.
pub struct KeySet {
    version: u64,
    keys: Vec<Key>,
    unusable: usize,
}

pub(super) struct Key {
    id: Option<String>,
    pub(super) decoding: DecodingKey,
    /// Its algorithms. Times and audience are checked elsewhere: the library uses the machine's
    /// clock, and ignores missing claims.
    pub(super) validation: Validation,
}

/// The source of a key set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// The configuration: symmetric keys are accepted.
    Configured,
    /// The issuer's public address: a symmetric key there is public.
    Fetched,
}

/// Why a text is not a valid key set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeySetError {
    /// It exceeds the limit of bytes.
    #[error("the key set has more than {JWKS_BYTES} bytes")]
    TooLarge,
    /// It is not an object with a list `keys`.
    #[error("the key set is not a JSON object with a list `keys`: {0}")]
    Malformed(String),
    /// It exceeds the limit of keys.
    #[error("the key set has {0} keys; the limit is {JWKS_KEYS}")]
    TooMany(usize),
}

impl KeySet {
    /// Parses a key set. Unusable keys are left out.
    ///
    /// # Errors
    ///
    /// It is malformed, or too large.
    pub fn parse(json: &[u8], provenance: Provenance) -> Result<Self, KeySetError> {
        crypto::install();
        if json.len() > JWKS_BYTES {
            return Err(KeySetError::TooLarge);
        }
        let malformed = |error: &dyn fmt::Display| KeySetError::Malformed(error.to_string());
        let mut set: Value = serde_json::from_slice(json).map_err(|error| malformed(&error))?;
        let Some(Value::Array(list)) = set.get_mut("keys").map(Value::take) else {
            return Err(malformed(&"there is no such list"));
        };
        if list.len() > JWKS_KEYS {
            return Err(KeySetError::TooMany(list.len()));
        }
        let all = list.len();
        let keys: Vec<Key> = list
            .into_iter()
            .filter_map(|key| Key::of(serde_json::from_value(key).ok()?, provenance))
            .collect();
        Ok(Self {
            version: next_version(),
            unusable: all.saturating_sub(keys.len()),
            keys,
        })
    }

    /// A version that is unique in the process.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Number of usable keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no usable keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of unusable keys.
    #[must_use]
    pub fn unusable(&self) -> usize {
        self.unusable
    }

    /// Whether some key could verify a token with this key id.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.is_named(id))
    }

    /// The keys to try for a token: those with its key id, or the first few.
    pub(super) fn candidates(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &Key> {
        let keys = self.keys.iter();
        keys.filter(move |key| id.is_none_or(|id| key.is_named(id)))
            .filter(move |key| key.validation.algorithms.contains(&algorithm))
            .take(JWT_KEYS_TRIED)
    }
}

impl fmt::Debug for KeySet {
    /// Omits the keys, some of which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.keys.iter().map(|key| &key.id).collect();
        f.debug_struct("KeySet")
            .field("version", &self.version)
            .field("ids", &ids)
            .finish_non_exhaustive()
    }
}

fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Key {
    fn of(jwk: Jwk, provenance: Provenance) -> Option<Self> {
        if !verifies(&jwk) {
            return None;
        }
        let (decoding, mut algorithms) = match &jwk.algorithm {
            AlgorithmParameters::RSA(parameters) => rsa(parameters)?,
            AlgorithmParameters::EllipticCurve(point) => {
                elliptic_curve(&point.curve, &point.x, &point.y)?
            }
            AlgorithmParameters::OctetKeyPair(point) => edwards(point)?,
            AlgorithmParameters::OctetKey(secret) if provenance == Provenance::Configured => {
                symmetric(&secret.value)?
            }
            _ => return None,
        };
        if let Some(only) = jwk.common.key_algorithm {
            let only = Algorithm::try_from(only).ok()?;
            algorithms.retain(|algorithm| *algorithm == only);
        }
        let first = *algorithms.first()?;
        let mut validation = Validation::new(first);
        validation.algorithms = algorithms;
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        Some(Self {
            id: jwk.common.key_id,
            decoding,
            validation,
        })
    }

    fn is_named(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }
}

/// Whether a key may be used for signatures (RFC 7517 sections 4.2 and 4.3).
fn verifies(jwk: &Jwk) -> bool {
    let common = &jwk.common;
    let uses = common.public_key_use.as_ref();
    let operations = common.key_operations.as_deref();
    uses.is_none_or(|uses| *uses == PublicKeyUse::Signature)
        && operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify))
}

type Usable = (DecodingKey, Vec<Algorithm>);

fn rsa(parameters: &RSAKeyParameters) -> Option<Usable> {
    let (n, e) = (decode(&parameters.n)?, decode(&parameters.e)?);
    // ring accepts no leading zeros, which some issuers write.
    let (n, e) = (without_zeros(&n), without_zeros(&e));
    let bits = n.len().saturating_mul(8);
    let usable = (JWT_RSA_BITS_MIN..=JWT_RSA_BITS_MAX).contains(&bits) && !e.is_empty();
    usable.then(|| {
        let key = DecodingKey::from_rsa_raw_components(n, e);
        (key, AlgorithmFamily::Rsa.algorithms().to_vec())
    })
}

fn elliptic_curve(curve: &EllipticCurve, x: &str, y: &str) -> Option<Usable> {
    let (algorithm, bytes) = match curve {
        EllipticCurve::P256 => (Algorithm::ES256, 32),
        EllipticCurve::P384 => (Algorithm::ES384, 48),
        _ => return None,
    };
    // Uncompressed: SEC 1 section 2.3.3.
    let mut point = vec![4];
    for coordinate in [decode(x)?, decode(y)?] {
        let missing = usize::checked_sub(bytes, coordinate.len())?;
        point.extend(std::iter::repeat_n(0, missing));
        point.extend_from_slice(&coordinate);
    }
    Some((DecodingKey::from_ec_der(&point), vec![algorithm]))
}

fn edwards(parameters: &OctetKeyPairParameters) -> Option<Usable> {
    let point = decode(&parameters.x)?;
    let usable = parameters.curve == EllipticCurve::Ed25519 && point.len() == 32;
    usable.then(|| (DecodingKey::from_ed_der(&point), vec![Algorithm::EdDSA]))
}

/// A secret has to be at least as long as the hash (RFC 7518 section 3.2).
fn symmetric(secret: &str) -> Option<Usable> {
    let secret = decode(secret)?;
    let mut algorithms = Vec::new();
    for (algorithm, bytes) in [
        (Algorithm::HS256, 32),
        (Algorithm::HS384, 48),
        (Algorithm::HS512, 64),
    ] {
        if secret.len() >= bytes {
            algorithms.push(algorithm);
        }
    }
    Some((DecodingKey::from_secret(&secret), algorithms))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

#[cfg(test)]
mod tests;
