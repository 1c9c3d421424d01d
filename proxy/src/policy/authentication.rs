//! How a rule authenticates the senders of requests: the credentials of one policy, and what they make of a request.
//!
//! Each credential that a request has is checked, whichever others it has. One of them suffices, unless the policy
//! requires all.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderName;

use super::api_keys::{ApiKeys, KeyHolder, claims_of};
use super::authorization::ClaimValues;
use super::basic_auth::{BasicAuth, PasswordHolder};
use super::headers::HeaderEdits;
use super::jwt::{Authenticator, Bearer, ClaimsUse, TokenLocation, TokenSources, write_rest};
use crate::failure::FailureKind;
use crate::http::grammar::is_equivalent;
use crate::http::h1::encode::field;
use crate::http::known::KnownHeader;

/// The credentials that a rule accepts.
#[derive(Debug)]
pub struct Authentication {
    /// Tokens.
    pub jwt: Option<Arc<Authenticator>>,
    /// Passwords of users.
    pub basic_auth: Option<Arc<BasicAuth>>,
    /// Keys of clients.
    pub api_keys: Option<Arc<ApiKeys>>,
    /// Whether each kind is needed, instead of one of them.
    pub requires_all: bool,
    /// Whether claims are needed after authentication.
    pub claims_use: ClaimsUse,
}

/// The credentials that a request has, each of which is valid.
#[derive(Debug, Default)]
pub struct Presented<'a> {
    /// Its token.
    pub token: Option<Bearer<'a>>,
    /// The user whose password it has.
    pub user: Option<PasswordHolder<'a>>,
    /// The client whose key it has.
    pub key: Option<KeyHolder<'a>>,
}

/// An authenticated request.
#[derive(Debug)]
pub struct Principal<'a> {
    by: &'a Authentication,
    with: Presented<'a>,
    /// What rules see of a client without a token.
    claims: Option<Box<ClaimValues>>,
}

impl Authentication {
    /// The sender of a request with these credentials.
    ///
    /// # Errors
    /// It lacks one that it needs.
    pub fn admit<'a>(&'a self, with: Presented<'a>) -> Result<Principal<'a>, FailureKind> {
        let has_token = with.has_token();
        // Whether each kind that is accepted is there, and whether it is needed at all.
        let jwt = { self.jwt.as_ref() }.map(|jwt| (has_token, !jwt.is_optional()));
        let passwords = { self.basic_auth.as_ref() }
            .map(|basic_auth| (with.user.is_some(), !basic_auth.is_optional()));
        let keys = { self.api_keys.as_ref() }.map(|_| (with.key.is_some(), true));
        let kinds = || [jwt, passwords, keys].into_iter().flatten();
        let is_enough = if self.requires_all {
            kinds().all(|(is_there, _)| is_there)
        } else {
            kinds().any(|(is_there, _)| is_there) || kinds().all(|(_, is_needed)| !is_needed)
        };
        if !is_enough {
            return Err(FailureKind::NoCredentials);
        }
        let reads_claims = self.claims_use == ClaimsUse::Rules && !has_token;
        let name = with.name().filter(|_| reads_claims);
        Ok(Principal {
            by: self,
            claims: name.map(|(name, by)| Box::new(claims_of(name, by))),
            with,
        })
    }

    /// Whether tokens are accepted, and the request has none, or keys, and it has none.
    #[must_use]
    pub fn lacks_token_or_key(&self, with: &Presented<'_>) -> bool {
        self.jwt.is_some() && !with.has_token() || self.api_keys.is_some() && with.key.is_none()
    }

    /// The names of the kinds that it has.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> + use<> {
        let kinds = [
            ("jwt", self.jwt.is_some()),
            ("basicAuth", self.basic_auth.is_some()),
            ("apiKeys", self.api_keys.is_some()),
        ];
        kinds
            .into_iter()
            .filter_map(|(name, is_used)| is_used.then_some(name))
    }

    /// Appends the field lines of a 401: how a client can authenticate itself, and no reason.
    pub fn write_challenges(&self, failure: FailureKind, lines: &mut Vec<u8>) {
        let of_tokens = match failure {
            FailureKind::NoCredentials | FailureKind::WrongCredentials => FailureKind::NoToken,
            other => other,
        };
        let is_about_tokens =
            [FailureKind::NoToken, FailureKind::Unauthenticated].contains(&of_tokens);
        if !is_about_tokens {
            return;
        }
        let jwt = self.jwt.as_ref();
        if let Some(challenge) = jwt.and_then(|jwt| jwt.challenge(of_tokens)) {
            lines.extend_from_slice(challenge);
        }
        if let Some(basic_auth) = &self.basic_auth {
            lines.extend_from_slice(basic_auth.challenge());
        }
        if let Some(keys) = &self.api_keys {
            let is_bearer = keys.reads_bearer();
            if is_bearer && jwt.is_none() {
                lines.extend_from_slice(b"WWW-Authenticate: Bearer realm=\"gateway\"\r\n");
            } else if !is_bearer {
                // No scheme is registered for keys, and a 401 needs one (RFC 9110 section 11.6.1).
                lines.extend_from_slice(b"WWW-Authenticate: ApiKey realm=\"gateway\"\r\n");
            }
        }
    }

    /// Whether a request's target may hold a credential, which no log may show.
    #[must_use]
    pub fn reads_target(&self) -> bool {
        self.jwt.as_ref().is_some_and(|jwt| jwt.reads_target())
            || self
                .api_keys
                .as_ref()
                .is_some_and(|keys| keys.reads_target())
    }

    /// A target without what may be a credential, for the `Location` of a redirect: its host may be another one.
    /// Beside an overriding answer, redirects come before authentication.
    #[must_use]
    pub fn without_credentials<'t>(&self, target: &'t [u8]) -> Cow<'t, [u8]> {
        if !self.reads_target() {
            return Cow::Borrowed(target);
        }
        let mut rest = target.to_vec();
        let of_tokens = self.jwt.iter().flat_map(|jwt| jwt.locations());
        let of_keys = self.api_keys.iter().flat_map(|keys| keys.locations());
        for location in of_tokens.chain(of_keys) {
            location.edit_target(&mut rest);
        }
        Cow::Owned(rest)
    }

    /// Whether backends get headers that say who the sender is.
    #[must_use]
    pub fn writes_headers(&self) -> bool {
        let claims = self.jwt.as_ref().is_some_and(|jwt| jwt.writes_headers());
        claims || self.name_headers().next().is_some()
    }

    /// Whether a header says who the sender is, so that it never comes from a client.
    #[must_use]
    pub fn claims_header(&self, name: &[u8]) -> bool {
        self.jwt.as_ref().is_some_and(|jwt| jwt.claims_header(name)) || { self.name_headers() }
            .any(|own| is_equivalent(own.as_str().as_bytes(), name))
    }

    /// The headers that have the name of the sender.
    fn name_headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.user_header().into_iter().chain(self.client_header())
    }

    fn user_header(&self) -> Option<&HeaderName> {
        self.basic_auth.as_ref()?.user_header()
    }

    fn client_header(&self) -> Option<&HeaderName> {
        self.api_keys.as_ref()?.client_header()
    }
}

impl Presented<'_> {
    /// Whether it has a token.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.token.as_ref().is_some_and(Bearer::has_token)
    }

    /// The user, or else the client, and by which kind of credential that is known.
    fn name(&self) -> Option<(&str, &'static str)> {
        let user = self.user.map(|it| (it.user(), "basic"));
        user.or_else(|| self.key.map(|it| (it.client(), "key")))
    }
}

impl Principal<'_> {
    /// The `sub` claim of its token.
    #[must_use]
    pub fn token_subject(&self) -> Option<&str> {
        self.with.token.as_ref()?.subject()
    }

    /// The user whose password it has, or else the client that its key belongs to.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.with.name().map(|(name, _)| name)
    }

    /// The claims, if rules use them: those of the token, or else of the user or client.
    #[must_use]
    pub fn claims(&self) -> Option<&ClaimValues> {
        let of_token = self.with.token.as_ref().and_then(Bearer::claims);
        of_token.or(self.claims.as_deref())
    }

    /// Whether a field is not forwarded as received: it held a credential, or a client claimed a value that only
    /// the gateway may provide.
    #[must_use]
    pub fn drops(&self, known: KnownHeader, name: &[u8]) -> bool {
        self.claims_header(name)
            || self
                .stripped()
                .any(|location| location.is_field(known, name))
    }

    /// Whether policies and authorization servers do not see a field either. They see the token of a bearer, which
    /// they may need, but no password and no key.
    #[must_use]
    pub fn hides(&self, known: KnownHeader, name: &[u8]) -> bool {
        match known {
            KnownHeader::Authorization => {
                let mut hidden = self.stripped_but_token();
                self.claims_header(name) || hidden.any(|it| it.is_field(known, name))
            }
            _ => self.drops(known, name),
        }
    }

    /// Whether a field can only come from the gateway.
    #[must_use]
    pub fn claims_header(&self, name: &[u8]) -> bool {
        self.by.claims_header(name)
    }

    /// Appends the lines that say who the sender is, and what remains of fields that held credentials. Names that
    /// `edits` drop are theirs: filters come after authentication.
    pub fn write_lines(
        &self,
        sources: TokenSources<'_>,
        edits: Option<&HeaderEdits>,
        lines: &mut Vec<u8>,
    ) {
        if let Some(token) = &self.with.token {
            token.write_claims(edits, lines);
        }
        let user = self.with.user.map(PasswordHolder::user);
        let client = self.with.key.map(KeyHolder::client);
        let user = self.by.user_header().zip(user);
        for (name, value) in user.into_iter().chain(self.by.client_header().zip(client)) {
            let name = name.as_str().as_bytes();
            if !edits.is_some_and(|edits| edits.drops(name)) {
                field(lines, name, value.as_bytes());
            }
        }
        write_rest(|| self.stripped(), sources, lines);
    }

    /// Removes credentials from the target.
    pub fn edit_target(&self, target: &mut Vec<u8>) {
        for location in self.stripped() {
            location.edit_target(target);
        }
    }

    /// The target as authorization servers see it: with a key, as backends get it.
    #[must_use]
    pub fn shown_target<'t>(&self, target: &'t [u8]) -> Cow<'t, [u8]> {
        if self.with.key.is_none() || !self.stripped().any(TokenLocation::is_in_target) {
            return Cow::Borrowed(target);
        }
        let mut shown = target.to_vec();
        self.edit_target(&mut shown);
        Cow::Owned(shown)
    }

    /// Where credentials are removed from.
    fn stripped(&self) -> impl Iterator<Item = &'_ TokenLocation> {
        let token = self.with.token.as_ref().and_then(Bearer::stripped);
        token.into_iter().chain(self.stripped_but_token())
    }

    fn stripped_but_token(&self) -> impl Iterator<Item = &'_ TokenLocation> {
        let password = self.with.user.map(PasswordHolder::stripped);
        let key = self.with.key.and_then(KeyHolder::stripped);
        password.into_iter().chain(key)
    }
}
