//! The ways in which a policy restricts access, to compare two versions of it.

use super::PolicySpec;

/// Ways in which a policy refuses requests that would be allowed without it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restrictions(u16);

impl Restrictions {
    /// By tokens.
    pub const JWT: Self = Self(1);
    /// By rules on requests.
    pub const AUTHORIZATION: Self = Self(1 << 1);
    /// By the client's network.
    pub const NETWORKS: Self = Self(1 << 2);
    /// By the number of requests.
    pub const RATE_LIMIT: Self = Self(1 << 3);
    /// By bounds of the limits of nearer targets.
    pub const BOUNDS: Self = Self(1 << 4);
    /// All requests, because the policy is invalid. That is more than all ways together.
    pub const ALL_REQUESTS: Self = Self(1 << 5);
    /// By an answer in the place of backends.
    pub const RESPOND: Self = Self(1 << 6);
    /// None, but backends would get paths that they do not expect without it.
    pub const PATH_REWRITE: Self = Self(1 << 7);

    /// By API keys.
    pub const API_KEYS: Self = Self(1 << 8);
    /// By passwords.
    pub const BASIC_AUTH: Self = Self(1 << 9);

    /// Those of the rows that apply.
    #[must_use]
    pub fn in_use(rows: impl IntoIterator<Item = (Self, bool)>) -> Self {
        let used = rows.into_iter().filter(|(_, is_used)| *is_used);
        Self(used.fold(0, |all, (Self(way), _)| all | way))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether requests that are refused in these ways are refused in the others too. Whoever refuses all requests
    /// refuses them in every way, but not necessarily connections: those only with [`Self::NETWORKS`].
    #[must_use]
    pub fn are_within(self, others: Self) -> bool {
        let covered = if others.0 & Self::ALL_REQUESTS.0 == 0 {
            others.0
        } else {
            others.0 | !Self::NETWORKS.0
        };
        self.0 & !covered == 0
    }
}

impl PolicySpec {
    /// The ways in which it restricts access.
    #[must_use]
    pub fn restrictions(&self) -> Restrictions {
        Restrictions::in_use([
            (Restrictions::JWT, self.jwt.is_some()),
            (Restrictions::BASIC_AUTH, self.basic_auth.is_some()),
            (Restrictions::API_KEYS, self.api_keys.is_some()),
            (Restrictions::AUTHORIZATION, self.authorization.is_some()),
            (
                Restrictions::NETWORKS,
                self.networks.is_some() || self.closes_connections,
            ),
            (Restrictions::RATE_LIMIT, self.rate_limit.is_some()),
            (Restrictions::RESPOND, self.respond.is_some()),
            (Restrictions::PATH_REWRITE, self.path_rewrite.is_some()),
            (Restrictions::BOUNDS, self.bounds_limits()),
            (Restrictions::ALL_REQUESTS, self.is_invalid),
        ])
    }

    /// Whether it refuses requests that would be allowed without it.
    #[must_use]
    pub fn restricts_access(&self) -> bool {
        !self.restrictions().is_empty()
    }
}
