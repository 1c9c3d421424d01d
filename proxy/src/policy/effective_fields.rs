//! The header fields of a request as policies evaluate it: the fields that the client sent, without
//! those that only the gateway or an authorization server may set, and with the ones that they set. Overriding
//! policies see the fields as the client sent them, and the client's certificate as the gateway verified it.

use super::authentication::Principal;
use super::forwarded::HeaderTrust;
use super::mutation::Mutation;
use crate::http::grammar::is_equivalent;
use crate::http::head::{Field, Fields};
use crate::http::known::KnownHeader;
use crate::http::lines::pairs;

/// What a policy sees of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyView {
    /// The header fields as the backend will receive them, and the claims of the token.
    Effective,
    /// The header fields as the client sent them, and no claims: an overriding policy whose target, and the
    /// wider ones, have no overriding JWT policy. What verifies tokens is then for nearer targets to say.
    AsSent,
    /// The header fields as the client sent them, and the claims of a token that an overriding policy of the
    /// same target, or a wider one, verifies.
    AsSentWithClaims,
}

impl PolicyView {
    /// Whether it includes claims.
    #[must_use]
    pub fn has_claims(self) -> bool {
        self != Self::AsSent
    }
}

/// The effective fields of a request.
#[derive(Debug, Clone, Copy)]
pub struct EffectiveFields<'a> {
    /// The fields that the client sent.
    pub fields: &'a Fields,
    /// The bytes that these are spans of.
    pub bytes: &'a [u8],
    /// Whether its forwarding headers are trusted.
    pub header_trust: HeaderTrust,
    /// The authenticated sender, once known.
    pub principal: Option<&'a Principal<'a>>,
    /// Lines of the gateway that are for this view, in the place of the client's.
    pub own: &'a [u8],
    /// The edits that authorization servers have granted.
    pub grants: Option<&'a Mutation>,
    /// For whom.
    pub view: PolicyView,
}

impl<'a> EffectiveFields<'a> {
    /// Name and value of each field, without those of the client that `passes` rejects.
    pub fn lines(
        self,
        passes: impl Fn(&Field) -> bool,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let received = self.fields.iter().filter_map(move |field| {
            let name = field.name.of(self.bytes);
            let passes = passes(field) && !self.drops(field.known, name);
            passes.then(|| (name, field.value.of(self.bytes)))
        });
        let granted = self.grants().map_or(&[][..], Mutation::lines);
        let own = pairs(self.own).filter(move |(name, _)| !self.is_granted(name));
        received.chain(own).chain(pairs(granted))
    }

    /// Whether a field of the client is dropped.
    fn drops(self, known: KnownHeader, name: &[u8]) -> bool {
        if pairs(self.own).any(|(own, _)| is_equivalent(own, name)) {
            return true;
        }
        if self.view != PolicyView::Effective {
            return self.header_trust.hides(known, name);
        }
        self.header_trust.drops(known, name) || self.is_granted(name) || { self.principal }
            .is_some_and(|principal| principal.hides(known, name))
    }

    fn is_granted(self, name: &[u8]) -> bool {
        self.grants().is_some_and(|grants| grants.drops(name))
    }

    fn grants(self) -> Option<&'a Mutation> {
        self.grants.filter(|_| self.view == PolicyView::Effective)
    }
}
