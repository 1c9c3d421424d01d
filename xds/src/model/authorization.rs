//! Which requests are let through, by what they and their tokens say.

/// Rules of a target. A request is refused where a rule of `deny` holds, and where there are rules of
/// `allow` and none of them holds. A rule that cannot be evaluated counts against the request: in
/// `deny` it holds, in `allow` it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationPolicy {
    /// Any of them refuses.
    pub deny: Vec<AuthorizationRule>,
    /// One of them has to hold, where there are any.
    pub allow: Vec<AuthorizationRule>,
}

impl AuthorizationPolicy {
    /// Refuses every request.
    #[must_use]
    pub fn deny_all() -> Self {
        Self {
            deny: vec![AuthorizationRule {
                name: String::new(),
                when: "true".to_owned(),
            }],
            allow: Vec::new(),
        }
    }
}

/// A condition on requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationRule {
    /// Its name in the policy; may be empty.
    pub name: String,
    /// An expression in CEL that is true of the requests meant.
    pub when: String,
}
