//! A compiled JWT policy: authenticates the sender of a request by its header fields.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderName;
use xds::model::{ClaimHeader, JwtForward, JwtMode, JwtPolicy, JwtProvider};

use super::cache::{Entry, Fingerprint, TokenCache};
use super::claims::{Claims, TimeRules};
use super::missing::UnknownKeys;
use super::source::{InForce, KeySource, ProviderKeys};
use super::token_location::{TokenLocation, TokenSources};
use super::verify::Unverified;
use super::{Refusal, TokenError};
use crate::failure::FailureKind;
use crate::http::grammar::is_equivalent;
use crate::http::h1::encode::field;
use crate::limits::{JWT_ETERNAL_CACHED, LOG_FIELD_BYTES};
use crate::policy::authorization::ClaimValues;
use crate::policy::challenge::challenge;
use crate::policy::headers::{HeaderEdits, is_ours};

/// A compiled JWT policy.
#[derive(Debug)]
pub struct Authenticator {
    /// Unique in the process.
    id: u64,
    mode: JwtMode,
    /// `WWW-Authenticate` line for a request without a token.
    challenge: Box<[u8]>,
    /// `WWW-Authenticate` line for a request whose token is invalid.
    invalid_token: Box<[u8]>,
    locations: Vec<TokenLocation>,
    providers: Vec<Provider>,
    /// Headers that come from claims, so that they never come from clients.
    claimed: Vec<HeaderName>,
    claims_use: ClaimsUse,
}

/// Whether claims are needed after verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClaimsUse {
    /// Headers alone, which are made once.
    Headers,
    /// Rules of authorization too.
    Rules,
}

/// An issuer of tokens.
#[derive(Debug)]
struct Provider {
    issuer: String,
    audiences: Vec<String>,
    time: TimeRules,
    /// Places where its tokens may be.
    locations: Vec<usize>,
    forward: JwtForward,
    claims: Vec<ClaimHeader>,
    keys: ProviderKeys,
}

/// The content of a verified token.
#[derive(Debug)]
pub struct Verified {
    pub(super) subject: Option<Box<str>>,
    pub(super) forward: JwtForward,
    pub(super) lines: Box<[Line]>,
    /// The claims that authorization rules read.
    pub(super) claims: Option<ClaimValues>,
}

/// A header line made from a claim.
#[derive(Debug)]
pub(super) struct Line {
    name: HeaderName,
    value: Box<[u8]>,
}

/// How a request was authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthenticatedBy {
    /// No token, and none is required.
    None,
    /// By a token that this shard had verified before.
    Cached,
    /// By a token that was verified.
    Verified,
}

/// The sender of a request that a policy admits by its token, or without one.
#[derive(Debug, Clone)]
pub struct Bearer<'a> {
    authenticated_by: AuthenticatedBy,
    /// The token, and where it was found.
    token: Option<(&'a TokenLocation, Rc<Verified>)>,
}

impl Authenticator {
    /// Compiles a policy. `keys` gives the keys of each provider, in their order.
    #[must_use]
    pub fn compile(
        policy: &JwtPolicy,
        keys: impl IntoIterator<Item = Arc<KeySource>>,
        claims_use: ClaimsUse,
    ) -> Self {
        let keys = keys.into_iter().map(ProviderKeys::from);
        Self::compile_after(policy, keys, claims_use)
    }

    /// Compiles the next version of a policy, whose keys may yet have to be fetched.
    #[must_use]
    pub fn compile_after(
        policy: &JwtPolicy,
        keys: impl IntoIterator<Item = ProviderKeys>,
        claims_use: ClaimsUse,
    ) -> Self {
        let mut locations = Vec::new();
        let mut claimed = Vec::new();
        let compile = |(provider, keys): (&JwtProvider, _)| {
            let claims = provider.claims_to_headers.iter();
            let claims = claims.filter(|claim| !is_ours(claim.header.as_str().as_bytes()));
            let claims: Vec<ClaimHeader> = claims.cloned().collect();
            claimed.extend(claims.iter().map(|claim| claim.header.clone()));
            let own = match provider.from.as_slice() {
                [] => vec![TokenLocation::bearer()],
                from => from.iter().map(TokenLocation::compile).collect(),
            };
            Provider {
                issuer: provider.issuer.clone(),
                audiences: provider.audiences.clone(),
                time: TimeRules::of(provider),
                locations: own
                    .into_iter()
                    .map(|it| position(&mut locations, it))
                    .collect(),
                forward: provider.forward,
                claims,
                keys,
            }
        };
        let providers = policy.providers.iter().zip(keys).map(compile).collect();
        // Without a provider, look for bearer tokens.
        if locations.is_empty() {
            locations.push(TokenLocation::bearer());
        }
        Self {
            id: next_id(),
            mode: policy.mode,
            // RFC 6750 section 3.
            challenge: challenge("Bearer", policy.realm.as_deref(), ""),
            invalid_token: challenge(
                "Bearer",
                policy.realm.as_deref(),
                ", error=\"invalid_token\"",
            ),
            locations,
            providers,
            claimed,
            claims_use,
        }
    }

    /// Authenticates or rejects a request, at a time in seconds since 1970.
    ///
    /// # Errors
    /// Its token is missing, or is not accepted by any provider of the policy; or not yet, if its
    /// key may be new.
    pub fn authenticate<'a>(
        &'a self,
        sources: TokenSources<'_>,
        now: i64,
        cache: &mut TokenCache,
    ) -> Result<Bearer<'a>, TokenError> {
        let Some((location, token)) = self.find(sources)? else {
            return match self.mode {
                JwtMode::Strict => Err(Refusal::Missing.into()),
                JwtMode::Optional => Ok(self.admit(AuthenticatedBy::None, None)),
            };
        };
        let fingerprint = Fingerprint::of(token);
        if let Some(entry) = cache.find(&fingerprint, self.id, location, now)
            && self.are_keys_current(entry, now)
        {
            let token = (location, Rc::clone(&entry.verified));
            return Ok(self.admit(AuthenticatedBy::Cached, Some(token)));
        }
        let entry = self.verify(token, fingerprint, location, now, &cache.unknown)?;
        let verified = Rc::clone(&entry.verified);
        cache.insert(entry);
        Ok(self.admit(AuthenticatedBy::Verified, Some((location, verified))))
    }

    /// The field line of a 401: the realm, and no reason. A request without a token gets no error
    /// code either (RFC 6750 section 3).
    #[must_use]
    pub fn challenge(&self, failure: FailureKind) -> Option<&[u8]> {
        match failure {
            FailureKind::NoToken => Some(&self.challenge),
            FailureKind::Unauthenticated => Some(&self.invalid_token),
            _ => None,
        }
    }

    /// Whether requests need no token.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.mode == JwtMode::Optional
    }

    /// Whether a request's target may hold a token, which no log may show.
    #[must_use]
    pub fn reads_target(&self) -> bool {
        self.locations.iter().any(TokenLocation::is_in_target)
    }

    /// Where tokens are read from.
    pub(in crate::policy) fn locations(&self) -> &[TokenLocation] {
        &self.locations
    }

    /// Whether claims are forwarded to backends in headers.
    #[must_use]
    pub fn writes_headers(&self) -> bool {
        !self.claimed.is_empty()
    }

    /// Whether a header comes from a claim.
    #[must_use]
    pub fn claims_header(&self, name: &[u8]) -> bool {
        let mut claimed = self.claimed.iter();
        claimed.any(|claimed| is_equivalent(claimed.as_str().as_bytes(), name))
    }

    fn admit(
        &self,
        authenticated_by: AuthenticatedBy,
        token: Option<(usize, Rc<Verified>)>,
    ) -> Bearer<'_> {
        let token =
            token.and_then(|(location, verified)| Some((self.locations.get(location)?, verified)));
        Bearer {
            authenticated_by,
            token,
        }
    }

    /// The only token of a request, and its location.
    fn find<'a>(&self, sources: TokenSources<'a>) -> Result<Option<(usize, &'a [u8])>, Refusal> {
        let mut found = None;
        for (number, location) in self.locations.iter().enumerate() {
            if let Some(token) = location.find(sources)?
                && found.replace((number, token)).is_some()
            {
                // RFC 6750 section 2: one way at a time.
                return Err(Refusal::Ambiguous);
            }
        }
        Ok(found)
    }

    /// Whether the keys that an entry was verified with are still in force.
    fn are_keys_current(&self, entry: &Entry, now: i64) -> bool {
        let provider = self.providers.get(entry.provider);
        provider.and_then(|provider| provider.keys.current().version(now)) == Some(entry.keys)
    }

    fn verify(
        &self,
        token: &[u8],
        fingerprint: Fingerprint,
        location: usize,
        now: i64,
        unknown: &UnknownKeys,
    ) -> Result<Entry, TokenError> {
        let unverified = Unverified::parse(token)?;
        let mut denied = TokenError::from(Refusal::Issuer);
        for (number, provider) in self.providers.iter().enumerate() {
            if provider.issuer != unverified.issuer() || !provider.locations.contains(&location) {
                continue;
            }
            match provider.verify(&unverified, now, unknown, self.claims_use) {
                Ok(accepted) => {
                    return Ok(Entry {
                        fingerprint,
                        policy: self.id,
                        location,
                        provider: number,
                        keys: accepted.keys,
                        expires: accepted.expires,
                        verified: Rc::new(accepted.verified),
                    });
                }
                // Of several reasons, one that may be temporary.
                Err(why) if denied.missing.is_none() => denied = why,
                Err(_) => {}
            }
        }
        Err(denied)
    }
}

/// The result of checking a token against a provider.
struct Accepted {
    keys: u64,
    expires: i64,
    verified: Verified,
}

impl Provider {
    fn verify(
        &self,
        token: &Unverified<'_>,
        now: i64,
        unknown: &UnknownKeys,
        claims_use: ClaimsUse,
    ) -> Result<Accepted, TokenError> {
        let (source, own) = (self.keys.current(), self.keys.own());
        let in_force = source.load(now);
        let Some(keys) = in_force.as_ref().and_then(InForce::keys) else {
            return Err(TokenError::without_keys(own));
        };
        if let Some(key) = token.unknown_key(keys) {
            return Err(if Arc::ptr_eq(source, own) {
                unknown.deny(own, keys, key, now)
            } else {
                // It may be among the new keys.
                TokenError::without_keys(own)
            });
        }
        let claims = token.verify(keys)?;
        let expires = claims.check_time(self.time, now)?;
        claims.check_audience(&self.audiences)?;
        Ok(Accepted {
            keys: keys.version(),
            expires: expires.unwrap_or_else(|| now.saturating_add(JWT_ETERNAL_CACHED)),
            verified: self.read(&claims, claims_use)?,
        })
    }

    fn read(&self, claims: &Claims, claims_use: ClaimsUse) -> Result<Verified, Refusal> {
        let line = |claim: &ClaimHeader| {
            Some(Line {
                name: claim.header.clone(),
                value: claims.header_value(&claim.claim)?.into_bytes().into(),
            })
        };
        // Only logs show it, and they clip it too.
        let clipped = |subject: &str| {
            let end = subject.floor_char_boundary(LOG_FIELD_BYTES);
            subject.get(..end).unwrap_or_default().into()
        };
        Ok(Verified {
            subject: claims.subject()?.map(clipped),
            forward: self.forward,
            lines: self.claims.iter().filter_map(line).collect(),
            claims: (claims_use == ClaimsUse::Rules).then(|| claims.values()),
        })
    }
}

impl Bearer<'_> {
    /// How it was authenticated.
    #[must_use]
    pub fn authenticated_by(&self) -> AuthenticatedBy {
        self.authenticated_by
    }

    /// The `sub` claim of the verified token.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        let (_, verified) = self.token.as_ref()?;
        verified.subject.as_deref()
    }

    /// The claims, if rules use them.
    #[must_use]
    pub fn claims(&self) -> Option<&ClaimValues> {
        let (_, verified) = self.token.as_ref()?;
        verified.claims.as_ref()
    }

    /// Whether there is a token.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Appends the lines of claims. Names that `edits` drop are theirs: filters come after authentication.
    pub fn write_claims(&self, edits: Option<&HeaderEdits>, lines: &mut Vec<u8>) {
        let Some((_, verified)) = &self.token else {
            return;
        };
        for line in &verified.lines {
            let name = line.name.as_str().as_bytes();
            if !edits.is_some_and(|edits| edits.drops(name)) {
                field(lines, name, &line.value);
            }
        }
    }

    /// Where the token is removed from.
    pub(in crate::policy) fn stripped(&self) -> Option<&TokenLocation> {
        let (location, verified) = self.token.as_ref()?;
        (verified.forward == JwtForward::Strip).then_some(*location)
    }
}

/// The index of a location, which is added if it is new.
fn position(locations: &mut Vec<TokenLocation>, location: TokenLocation) -> usize {
    let known = locations.iter().position(|known| *known == location);
    known.unwrap_or_else(|| {
        locations.push(location);
        locations.len().saturating_sub(1)
    })
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
