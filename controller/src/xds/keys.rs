//! The keys of service account tokens of a cluster (JWKS, RFC 7517). They verify tokens while the
//! API server is unavailable.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use kube::Client;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use thiserror::Error;

use super::AUDIENCE;
use super::token::{Bearer, Token};

/// The keys and the issuer of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    issuer: String,
    keys: Vec<Key>,
}

#[derive(Debug, Clone, Deserialize)]
struct KeySet {
    keys: Vec<Key>,
}

/// A key; one of an unknown type verifies nothing.
#[derive(Debug, Clone, Deserialize)]
struct Key {
    kty: String,
    kid: Option<String>,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
    #[serde(default)]
    crv: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
}

#[derive(Debug, Deserialize)]
struct Discovery {
    issuer: String,
}

/// Why a token is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum InvalidKey {
    #[error("its issuer is unknown")]
    Issuer,
    #[error("its audience is another")]
    Audience,
    #[error("it has expired")]
    Expired,
    #[error("it is not valid yet")]
    Early,
    #[error("it is not signed by a known key")]
    Signature,
    #[error("it has no subject")]
    Nobody,
}

impl Keys {
    /// Fetches the keys, which the `ClusterRole` `system:service-account-issuer-discovery` permits.
    pub(super) async fn fetch(client: &Client) -> Result<Self, kube::Error> {
        let request = |path: &str| Request::get(path).body(Vec::new());
        let discovery = request("/.well-known/openid-configuration");
        let discovery = discovery.map_err(kube::Error::HttpError)?;
        let Discovery { issuer } = client.request(discovery).await?;
        let keys = request("/openid/v1/jwks").map_err(kube::Error::HttpError)?;
        let KeySet { keys } = client.request(keys).await?;
        Ok(Self { issuer, keys })
    }

    pub(super) fn verify(&self, token: &Token<'_>, now: SystemTime) -> Result<Bearer, InvalidKey> {
        let named = |key: &&Key| token.header.kid.is_none() || token.header.kid == key.kid;
        let mut keys = self.keys.iter().filter(named);
        if token.header.crit.is_some() || !keys.any(|key| key.has_signed(token)) {
            return Err(InvalidKey::Signature);
        }
        let claims = &token.claims;
        if claims.iss != self.issuer {
            return Err(InvalidKey::Issuer);
        }
        if !claims.is_for(AUDIENCE) {
            return Err(InvalidKey::Audience);
        }
        let at = |seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        if at(claims.exp).is_none_or(|end| end + LEEWAY <= now) {
            return Err(InvalidKey::Expired);
        }
        let begin = claims.nbf.and_then(at);
        if begin.is_some_and(|begin| now + LEEWAY < begin) {
            return Err(InvalidKey::Early);
        }
        claims.bearer().ok_or(InvalidKey::Nobody)
    }
}

impl Key {
    /// Whether this key has signed a token, with an algorithm of its type.
    fn has_signed(&self, token: &Token<'_>) -> bool {
        let alg = token.header.alg.as_str();
        match (self.kty.as_str(), self.crv.as_str()) {
            ("RSA", _) => rsa(alg).is_some_and(|it| self.has_signed_by_rsa(token, it)),
            ("EC", "P-256") if alg == "ES256" => {
                self.has_signed_by_ecdsa(token, &ECDSA_P256_SHA256_FIXED)
            }
            ("EC", "P-384") if alg == "ES384" => {
                self.has_signed_by_ecdsa(token, &ECDSA_P384_SHA384_FIXED)
            }
            _ => false,
        }
    }

    fn has_signed_by_rsa(&self, token: &Token<'_>, algorithm: &'static RsaParameters) -> bool {
        let number = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let Some((n, e)) = number(&self.n).zip(number(&self.e)) else {
            return false;
        };
        let key = RsaPublicKeyComponents { n, e };
        let signed = token.signed.as_bytes();
        key.verify(algorithm, signed, &token.signature).is_ok()
    }

    fn has_signed_by_ecdsa(
        &self,
        token: &Token<'_>,
        algorithm: &'static dyn VerificationAlgorithm,
    ) -> bool {
        let number = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let Some((x, y)) = number(&self.x).zip(number(&self.y)) else {
            return false;
        };
        let point = [&[UNCOMPRESSED][..], &x, &y].concat();
        let key = UnparsedPublicKey::new(algorithm, point);
        let signed = token.signed.as_bytes();
        key.verify(signed, &token.signature).is_ok()
    }
}

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    match algorithm {
        "RS256" => Some(&RSA_PKCS1_2048_8192_SHA256),
        "RS384" => Some(&RSA_PKCS1_2048_8192_SHA384),
        "RS512" => Some(&RSA_PKCS1_2048_8192_SHA512),
        _ => None,
    }
}

/// Clock skew that is allowed between the API server and this controller.
const LEEWAY: Duration = Duration::from_mins(1);

/// First byte of an uncompressed point (SEC 1 section 2.3.3).
const UNCOMPRESSED: u8 = 4;

#[cfg(test)]
pub(super) mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
    use serde_json::{Value, json};

    use super::*;

    /// A cluster's signing key.
    pub(in crate::xds) struct Signer(EcdsaKeyPair);

    pub(in crate::xds) const ISSUER: &str = "https://kubernetes.default.svc";

    impl Signer {
        pub(in crate::xds) fn new() -> Self {
            let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
            let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
            let key = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random);
            Self(key.expect("a key"))
        }

        pub(in crate::xds) fn jwks(&self) -> Value {
            let point = &self.0.public_key().as_ref()[1..];
            let number = |bytes| URL_SAFE_NO_PAD.encode(bytes);
            let (x, y) = (number(&point[..32]), number(&point[32..]));
            json!({"keys": [
                {"kty": "oct", "kid": "other", "k": "AA"},
                {"kty": "EC", "kid": "1", "crv": "P-256", "x": x, "y": y},
            ]})
        }

        pub(in crate::xds) fn sign(&self, header: &Value, claims: &Value) -> String {
            let part = |it: &Value| URL_SAFE_NO_PAD.encode(it.to_string());
            let signed = format!("{}.{}", part(header), part(claims));
            let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes());
            let signature = signature.expect("a signature");
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
        }

        /// A token of this service account, bound to this pod.
        pub(in crate::xds) fn token(&self, account: &ObjectName, pod: &str) -> String {
            self.sign(&json!({"alg": "ES256", "kid": "1"}), &claims(account, pod))
        }

        fn keys(&self) -> Keys {
            let KeySet { keys } = serde_json::from_value(self.jwks()).expect("a key set");
            Keys {
                issuer: ISSUER.to_owned(),
                keys,
            }
        }
    }

    use xds::model::ObjectName;

    pub(in crate::xds) fn claims(account: &ObjectName, pod: &str) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("after 1970").as_secs();
        json!({
            "iss": ISSUER, "aud": [AUDIENCE], "exp": now + 3_600, "nbf": now,
            "kubernetes.io": {
                "namespace": &*account.namespace,
                "serviceaccount": {"name": &*account.name, "uid": "1"},
                "pod": {"name": pod, "uid": "2"},
            },
        })
    }

    fn verdict(keys: &Keys, token: &str) -> Result<Bearer, InvalidKey> {
        let token = Token::parse(token).expect("a token");
        keys.verify(&token, SystemTime::now())
    }

    #[test]
    fn a_token_of_the_cluster_identifies_its_service_account() {
        let signer = Signer::new();
        let account = ObjectName::new("a", "web");
        let bearer = verdict(&signer.keys(), &signer.token(&account, "web-1"));
        let pod = Some("web-1".into());
        let node = None;
        assert_eq!(bearer, Ok(Bearer { account, pod, node }));
    }

    #[test]
    fn a_token_of_another_signer_is_invalid() {
        let (signer, other) = (Signer::new(), Signer::new());
        let account = ObjectName::new("a", "web");
        let token = other.token(&account, "web-1");
        assert_eq!(verdict(&signer.keys(), &token), Err(InvalidKey::Signature));
        let valid = signer.token(&account, "web-1");
        let (_, signature) = valid.rsplit_once('.').expect("a signature");
        let forged = signer.token(&ObjectName::new("b", "other"), "x");
        let (signed, _) = forged.rsplit_once('.').expect("a signature");
        let forged = format!("{signed}.{signature}");
        assert_eq!(verdict(&signer.keys(), &forged), Err(InvalidKey::Signature));
    }

    #[test]
    fn the_token_header_cannot_choose_the_verification() {
        let signer = Signer::new();
        let claims = claims(&ObjectName::new("a", "web"), "web-1");
        for header in [
            json!({"alg": "none", "kid": "1"}),
            json!({"alg": "HS256", "kid": "1"}),
            json!({"alg": "ES384", "kid": "1"}),
            json!({"alg": "ES256", "kid": "other"}),
            json!({"alg": "ES256", "kid": "1", "crit": ["b64"], "b64": false}),
        ] {
            let token = signer.sign(&header, &claims);
            let verdict = verdict(&signer.keys(), &token);
            assert_eq!(verdict, Err(InvalidKey::Signature), "{header}");
        }
    }

    #[test]
    fn registered_claims_are_validated() {
        let signer = Signer::new();
        for (claim, value, expected) in [
            ("iss", json!("https://elsewhere"), InvalidKey::Issuer),
            (
                "aud",
                json!("https://kubernetes.default.svc"),
                InvalidKey::Audience,
            ),
            ("exp", json!(1_000), InvalidKey::Expired),
            ("exp", json!(u64::MAX), InvalidKey::Expired),
            ("nbf", json!(99_999_999_999_u64), InvalidKey::Early),
        ] {
            let mut claims = claims(&ObjectName::new("a", "web"), "web-1");
            claims[claim] = value;
            let token = signer.sign(&json!({"alg": "ES256", "kid": "1"}), &claims);
            assert_eq!(verdict(&signer.keys(), &token), Err(expected), "{claim}");
        }
    }
}
