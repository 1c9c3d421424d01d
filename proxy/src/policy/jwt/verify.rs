//! Whether a token is what it claims to be: RFC 7519 section 7.2, RFC 8725, and nothing on trust.

use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Header, decode, decode_header};

use super::Refusal;
use super::claims::Claims;
use super::keys::KeySet;
use crate::limits::JWT_BYTES;

/// A token that was taken apart, and of which nothing is believed yet.
pub(super) struct Unverified<'a> {
    token: &'a [u8],
    header: Header,
    issuer: String,
}

impl<'a> Unverified<'a> {
    /// Takes a token apart.
    pub(super) fn parse(token: &'a [u8]) -> Result<Self, Refusal> {
        if token.len() > JWT_BYTES {
            return Err(Refusal::TooLong);
        }
        let header = decode_header(token).map_err(|_| Refusal::Malformed)?;
        // Whatever is critical there, we do not know it (RFC 7515 section 4.1.11).
        if header.crit.is_some() {
            return Err(Refusal::Critical);
        }
        let claims: Claims = insecure_decode_claims(token).map_err(|_| Refusal::Malformed)?;
        let issuer = claims.issuer()?.to_owned();
        Ok(Self {
            token,
            header,
            issuer,
        })
    }

    /// Who claims to have made it: says whose keys to try, and nothing else.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The key that it names, where that is not in the set.
    pub(super) fn unknown_key(&self, keys: &KeySet) -> Option<&str> {
        let id = self.header.kid.as_deref();
        id.filter(|id| !keys.knows(id))
    }

    /// Its claims, once a key of the issuer's has proved them.
    pub(super) fn verify(&self, keys: &KeySet) -> Result<Claims, Refusal> {
        let mut refusal = Refusal::Key;
        for key in keys.candidates(self.header.kid.as_deref(), self.header.alg) {
            match decode::<Claims>(self.token, &key.decoding, &key.validation) {
                Ok(verified) => return Ok(verified.claims),
                Err(error) if *error.kind() == ErrorKind::InvalidSignature => {
                    refusal = Refusal::Signature;
                }
                Err(_) => refusal = Refusal::Malformed,
            }
        }
        Err(refusal)
    }
}
