//! Verifies a token (RFC 7519 section 7.2, RFC 8725).

use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Header, decode, decode_header};

use super::Refusal;
use super::claims::Claims;
use super::keys::KeySet;
use crate::limits::JWT_BYTES;

/// A parsed token, not verified yet.
pub(super) struct Unverified<'a> {
    token: &'a [u8],
    header: Header,
    issuer: String,
}

impl<'a> Unverified<'a> {
    pub(super) fn parse(token: &'a [u8]) -> Result<Self, Refusal> {
        if token.len() > JWT_BYTES {
            return Err(Refusal::TooLong);
        }
        let header = decode_header(token).map_err(|_| Refusal::Malformed)?;
        // Critical extensions must be understood; none are (RFC 7515 section 4.1.11).
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

    /// The claimed issuer: only for selecting the keys.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The key id, if the key set does not have it.
    pub(super) fn unknown_key(&self, keys: &KeySet) -> Option<&str> {
        let id = self.header.kid.as_deref();
        id.filter(|id| !keys.contains(id))
    }

    /// Its claims, after verification with a key of the issuer.
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
