//! How a token of the table is made.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::NOW;
use super::tokens::{Signer, encode, key_set, mac, message};

pub(crate) struct Signers(Vec<(&'static str, Signer)>);

impl Default for Signers {
    fn default() -> Self {
        Self(vec![
            ("p256", Signer::p256()),
            ("p384", Signer::p384()),
            ("ed25519", Signer::ed25519()),
            ("rsa", Signer::rsa()),
            ("secret", Signer::secret(32)),
            ("encrypts", Signer::p256()),
            ("only-signs", Signer::p256()),
            ("other", Signer::p256()),
            ("stranger", Signer::p256()),
        ])
    }
}

impl Signers {
    pub(crate) fn find(&self, name: &str) -> &Signer {
        let signer = self.0.iter().find(|(known, _)| *known == name);
        &signer
            .unwrap_or_else(|| panic!("no signer is called {name}"))
            .1
    }

    /// The keys of `https://issuer.test`.
    pub(crate) fn first_set(&self) -> String {
        let jwk = |name: &str| self.find(name).jwk(name);
        let with = |mut jwk: Value, name: &str, value: Value| {
            jwk[name] = value;
            jwk
        };
        let limited = with(self.find("rsa").jwk("rsa-256"), "alg", json!("RS256"));
        key_set(&[
            jwk("rsa"),
            limited,
            jwk("p256"),
            jwk("p384"),
            jwk("ed25519"),
            jwk("secret"),
            with(jwk("encrypts"), "use", json!("enc")),
            with(jwk("only-signs"), "key_ops", json!(["sign"])),
            json!({"kty": "EC", "kid": "p521", "crv": "P-521", "x": "AA", "y": "AA"}),
            json!({"kty": "RSA", "kid": "rsa-512", "n": encode([0xff; 64]), "e": "AQAB"}),
            json!({"kty": "oct", "kid": "short", "k": encode([1; 31])}),
            json!({"kty": "unheard-of", "kid": "unheard-of"}),
            json!("no key at all"),
        ])
    }

    /// The keys of `https://other.test`.
    pub(crate) fn second_set(&self) -> String {
        key_set(&[self.find("other").jwk("other")])
    }
}

/// Valid claims.
pub(crate) fn claims() -> Value {
    json!({
        "iss": "https://issuer.test",
        "sub": "alice",
        "aud": "api",
        "exp": NOW + 600,
        "nbf": NOW - 10,
        "iat": NOW - 10,
    })
}

/// A token, as a difference from one that is accepted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Recipe {
    pub(crate) name: String,
    /// `accept`, or why it is refused.
    pub(crate) expect: String,
    /// The signer, which is also the `kid`.
    #[serde(default = "p256")]
    signer: String,
    /// Members of the header that replace the default ones.
    #[serde(default = "nothing")]
    header: String,
    /// Members of the header that are left out.
    #[serde(default)]
    header_without: Vec<String>,
    /// The raw header.
    header_text: Option<String>,
    /// Claims that replace the default ones.
    #[serde(default = "nothing")]
    claims: String,
    /// Claims that are left out.
    #[serde(default)]
    claims_without: Vec<String>,
    /// The raw claims.
    claims_text: Option<String>,
    /// The signature, if it is not the signer's.
    #[serde(default)]
    signature: Signature,
    /// The edit of the finished token.
    #[serde(default)]
    edit: Edit,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Signature {
    #[default]
    Signed,
    Empty,
    Zeros,
    /// HMAC with the text of the public RSA key.
    MacOfPublicKey,
    /// ECDSA as TLS has it.
    Asn1,
    OfOtherClaims,
    CutShort,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Edit {
    #[default]
    None,
    Nothing,
    OneDot,
    TwoDots,
    HeaderAlone,
    WithoutSignature,
    FourParts,
    FiveParts,
    DotBefore,
    HeaderNotBase64,
    PadHeader,
    PadClaims,
    PadSignature,
    SpaceBefore,
    SpaceInside,
    LineInside,
    NulBehind,
    LooseBits,
    NotUtf8,
}

fn p256() -> String {
    "p256".to_owned()
}

fn nothing() -> String {
    "{}".to_owned()
}

impl Recipe {
    pub(crate) fn all() -> Vec<Self> {
        #[derive(Deserialize)]
        struct Table {
            token: Vec<Recipe>,
        }
        let table: Table = toml::from_str(include_str!("tokens.toml")).expect("a table of tokens");
        table.token
    }

    pub(crate) fn make(&self, signers: &Signers) -> String {
        let signer = signers.find(&self.signer);
        let usual = json!({"alg": signer.algorithm(), "typ": "JWT", "kid": self.signer});
        let header = changed(usual, &self.header, &self.header_without);
        let claims = changed(claims(), &self.claims, &self.claims_without);
        let algorithm = header["alg"].as_str().unwrap_or_default().to_owned();
        let header = self
            .header_text
            .clone()
            .unwrap_or_else(|| header.to_string());
        let claims = self
            .claims_text
            .clone()
            .unwrap_or_else(|| claims.to_string());
        let message = message(&header, &claims);
        let signature = self.sign(signers, &algorithm, &message);
        self.edit.apply(&message, &encode(signature))
    }

    fn sign(&self, signers: &Signers, algorithm: &str, message: &str) -> Vec<u8> {
        let signer = signers.find(&self.signer);
        let algorithm = match signer {
            Signer::Rsa(_)
                if algorithm.ends_with(['6', '4', '2']) && !algorithm.starts_with('E') =>
            {
                algorithm
            }
            _ => signer.algorithm(),
        };
        match self.signature {
            Signature::Signed => signer.sign(algorithm, message.as_bytes()),
            Signature::Empty => Vec::new(),
            Signature::Zeros => vec![0; 64],
            Signature::MacOfPublicKey => {
                let public = signers.find("rsa").jwk("rsa").to_string();
                mac(public.as_bytes(), message.as_bytes())
            }
            Signature::Asn1 => asn1(&signer.sign(algorithm, message.as_bytes())),
            Signature::OfOtherClaims => signer.sign(algorithm, b"e30.e30"),
            Signature::CutShort => {
                let mut signature = signer.sign(algorithm, message.as_bytes());
                signature.pop();
                signature
            }
        }
    }
}

/// Members put over others, and some left out.
fn changed(mut usual: Value, over: &str, without: &[String]) -> Value {
    let over: Value = serde_json::from_str(over).expect("JSON in the table");
    for (name, value) in over.as_object().expect("an object in the table") {
        usual[name] = value.clone();
    }
    let members = usual.as_object_mut().expect("an object");
    members.retain(|name, _| !without.contains(name));
    usual
}

/// Two integers of 32 bytes as a SEQUENCE, each with a zero in front so that it is positive.
fn asn1(fixed: &[u8]) -> Vec<u8> {
    let mut sequence = vec![0x30, 70];
    for half in fixed.chunks(32) {
        sequence.extend_from_slice(&[0x02, 33, 0]);
        sequence.extend_from_slice(half);
    }
    sequence
}

impl Edit {
    fn apply(&self, message: &str, signature: &str) -> String {
        let (header, claims) = message.split_once('.').expect("two parts");
        let token = format!("{message}.{signature}");
        match self {
            Self::None => token,
            Self::Nothing => ".".to_owned(),
            Self::OneDot => format!("{header}."),
            Self::TwoDots => "..".to_owned(),
            Self::HeaderAlone => header.to_owned(),
            Self::WithoutSignature => message.to_owned(),
            Self::FourParts => format!("{token}.{signature}"),
            Self::FiveParts => format!("{header}.{claims}.{claims}.{claims}.{signature}"),
            Self::DotBefore => format!(".{token}"),
            Self::HeaderNotBase64 => format!("*{token}"),
            Self::PadHeader => format!("{header}=.{claims}.{signature}"),
            Self::PadClaims => format!("{header}.{claims}=.{signature}"),
            Self::PadSignature => format!("{token}=="),
            Self::SpaceBefore => format!("{header} .{claims}.{signature}"),
            Self::SpaceInside => format!("{header}. {claims}.{signature}"),
            Self::LineInside => format!("{header}.{claims}\n.{signature}"),
            Self::NulBehind => format!("{token}\0"),
            Self::LooseBits => format!("{message}.{}", loosened(signature)),
            Self::NotUtf8 => {
                let mut bytes = URL_SAFE_NO_PAD.decode(claims).expect("base64");
                bytes.extend_from_slice(b"\xff");
                format!("{header}.{}.{signature}", encode(bytes))
            }
        }
    }
}

/// The same bytes, with a last character whose spare bits are not zero.
fn loosened(signature: &str) -> String {
    let (rest, last) = signature.split_at(signature.len() - 1);
    let next = char::from(last.as_bytes()[0] + 1);
    format!("{rest}{next}")
}
