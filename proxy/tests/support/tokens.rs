//! Keys and signed tokens for tests, with only ring and base64.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    Ed25519KeyPair, KeyPair, RsaEncoding, RsaKeyPair,
};
use ring::{hmac, rand};
use serde_json::{Value, json};

/// ring makes no RSA keys: this one is from `openssl genpkey -algorithm RSA -outform DER`, and used
/// only in tests.
const RSA_2048: &[u8] = include_bytes!("rsa_2048.der");

pub(crate) enum Signer {
    /// RSA with 2048 bits, the same in every test.
    Rsa(RsaKeyPair),
    /// A fresh key on P-256.
    P256(EcdsaKeyPair),
    /// A fresh key on P-384.
    P384(EcdsaKeyPair),
    /// A fresh Ed25519 key.
    Ed25519(Ed25519KeyPair),
    /// A fresh secret of this many bytes.
    Secret(Vec<u8>),
}

impl Signer {
    pub(crate) fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::from_der(RSA_2048).expect("a key"))
    }

    pub(crate) fn p256() -> Self {
        let (method, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(method, &random).expect("random numbers");
        Self::P256(EcdsaKeyPair::from_pkcs8(method, key.as_ref(), &random).expect("a key"))
    }

    pub(crate) fn p384() -> Self {
        let (method, random) = (&ECDSA_P384_SHA384_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(method, &random).expect("random numbers");
        Self::P384(EcdsaKeyPair::from_pkcs8(method, key.as_ref(), &random).expect("a key"))
    }

    pub(crate) fn ed25519() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("random numbers");
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(key.as_ref()).expect("a key"))
    }

    pub(crate) fn secret(bytes: usize) -> Self {
        let mut secret = vec![0; bytes];
        rand::SecureRandom::fill(&SystemRandom::new(), &mut secret).expect("random numbers");
        Self::Secret(secret)
    }

    /// The algorithm that it signs with by default.
    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::Ed25519(_) => "EdDSA",
            Self::Secret(_) => "HS256",
        }
    }

    /// Its public key; for HMAC, the secret.
    pub(crate) fn jwk(&self, id: &str) -> Value {
        match self {
            Self::Rsa(key) => {
                let PublicKeyComponents { n, e } =
                    PublicKeyComponents::<Vec<u8>>::from(key.public_key());
                json!({"kty": "RSA", "kid": id, "n": encode(n), "e": encode(e)})
            }
            Self::P256(key) => point(id, "P-256", key),
            Self::P384(key) => point(id, "P-384", key),
            Self::Ed25519(key) => {
                let x = encode(key.public_key());
                json!({"kty": "OKP", "kid": id, "crv": "Ed25519", "x": x})
            }
            Self::Secret(secret) => json!({"kty": "oct", "kid": id, "k": encode(secret)}),
        }
    }

    /// A signature by one of its algorithms.
    pub(crate) fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(padding(algorithm), &random, message, &mut signature)
                    .expect("a key of this size");
                signature
            }
            Self::P256(key) | Self::P384(key) => {
                let signature = key.sign(&random, message).expect("random numbers");
                signature.as_ref().to_vec()
            }
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Self::Secret(secret) => mac(secret, message),
        }
    }

    /// A token with this header and these claims.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        let algorithm = header["alg"].as_str().unwrap_or_else(|| self.algorithm());
        let message = message(&header.to_string(), &claims.to_string());
        let signature = self.sign(algorithm, message.as_bytes());
        format!("{message}.{}", encode(signature))
    }

    /// A token of a key of this id, with these claims.
    pub(crate) fn signs(&self, id: &str, claims: &Value) -> String {
        self.token(&json!({"alg": self.algorithm(), "kid": id}), claims)
    }
}

pub(crate) fn key_set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// The first two parts of a token.
pub(crate) fn message(header: &str, claims: &str) -> String {
    format!("{}.{}", encode(header), encode(claims))
}

pub(crate) fn mac(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hmac::sign(&key, message).as_ref().to_vec()
}

/// The base64 of tokens.
pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn point(id: &str, curve: &str, key: &EcdsaKeyPair) -> Value {
    // One byte says that both coordinates follow.
    let (x, y) = {
        let point = &key.public_key().as_ref()[1..];
        point.split_at(point.len() / 2)
    };
    json!({"kty": "EC", "kid": id, "crv": curve, "x": encode(x), "y": encode(y)})
}

fn padding(algorithm: &str) -> &'static dyn RsaEncoding {
    match algorithm {
        "RS256" => &signature::RSA_PKCS1_SHA256,
        "RS384" => &signature::RSA_PKCS1_SHA384,
        "RS512" => &signature::RSA_PKCS1_SHA512,
        "PS256" => &signature::RSA_PSS_SHA256,
        "PS384" => &signature::RSA_PSS_SHA384,
        "PS512" => &signature::RSA_PSS_SHA512,
        other => panic!("{other} is not of RSA"),
    }
}
