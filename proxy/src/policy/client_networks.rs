//! Which client addresses a rule accepts.

use std::net::IpAddr;
use std::sync::Arc;

use super::networks::Networks;
use crate::failure::{Failure, FailureKind};
use crate::names::causes;

/// The compiled networks of a policy.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientNetworks {
    /// `kind/namespace/name` of the policy.
    pub policy: Box<str>,
    /// What it accepts.
    pub lists: ClientLists,
}

/// Lists of networks. Policies with the same lists share them.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientLists {
    /// A list was never read: no client is accepted.
    ListMissing,
    /// The lists.
    Lists {
        /// Addresses that are refused.
        deny: Arc<Networks>,
        /// If set, all other addresses are refused.
        allow: Option<Arc<Networks>>,
    },
}

causes! {
    /// Why a client is refused.
    Outside;
    /// Its address is in a network of `deny`.
    Denied "denied_by_network";
    /// Its address is in no network of `allow`.
    NotAllowed "allowed_by_no_network";
    /// A list was never read.
    ListMissing "list_missing";
}

impl From<Outside> for Failure {
    fn from(outside: Outside) -> Self {
        match outside {
            Outside::ListMissing => FailureKind::ListMissing.into(),
            Outside::Denied | Outside::NotAllowed => {
                Self::because(FailureKind::Forbidden, outside.reason())
            }
        }
    }
}

impl ClientLists {
    /// Checks an address.
    ///
    /// # Errors
    ///
    /// It is refused.
    pub fn check(&self, client: IpAddr) -> Result<(), Outside> {
        let Self::Lists { deny, allow } = self else {
            return Err(Outside::ListMissing);
        };
        if deny.contains(client) {
            return Err(Outside::Denied);
        }
        match allow {
            Some(allow) if !allow.contains(client) => Err(Outside::NotAllowed),
            _ => Ok(()),
        }
    }
}

/// Checks an address by all policies, of which each has to accept it.
///
/// # Errors
///
/// One refuses it.
pub fn check(policies: &[Arc<ClientNetworks>], client: IpAddr) -> Result<(), Outside> {
    let mut policies = policies.iter();
    policies.try_for_each(|policy| policy.lists.check(client))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(text: &str, length: u8) -> Arc<Networks> {
        let address = text.parse().expect("an address");
        Arc::new(Networks::compile(&[(address, length)]))
    }

    #[test]
    fn deny_wins_and_an_allow_list_denies_the_rest() {
        let allow = Some(networks("10.0.0.0", 8));
        let deny = networks("10.1.0.0", 16);
        let both = ClientLists::Lists { deny, allow };
        let check =
            |lists: &ClientLists, text: &str| lists.check(text.parse().expect("an address"));
        assert_eq!(check(&both, "10.2.0.1"), Ok(()));
        assert_eq!(check(&both, "10.1.0.1"), Err(Outside::Denied));
        assert_eq!(check(&both, "::ffff:10.1.0.1"), Err(Outside::Denied));
        assert_eq!(check(&both, "192.0.2.1"), Err(Outside::NotAllowed));
        let none = ClientLists::Lists {
            deny: Arc::default(),
            allow: Some(Arc::default()),
        };
        assert_eq!(
            check(&none, "10.2.0.1"),
            Err(Outside::NotAllowed),
            "an empty list"
        );
        assert_eq!(
            check(&ClientLists::ListMissing, "10.2.0.1"),
            Err(Outside::ListMissing)
        );
        let all = [both, none].map(|lists| {
            let policy = "TrafficPolicy/a/b".into();
            Arc::new(ClientNetworks { policy, lists })
        });
        assert!(super::check(&all, "10.2.0.1".parse().expect("valid")).is_err());
        assert!(super::check(&[], "10.2.0.1".parse().expect("valid")).is_ok());
    }
}
