//! Maps service accounts to Gateways: the deployer creates one for each Gateway, named after it.

use std::sync::Arc;

use translate::Infrastructure;
use translate::naming::child_name;
use xds::model::ObjectName;

use crate::change_tracker::ChangeTracker;

/// The Gateway of a service account, if this controller serves it.
#[must_use]
pub fn gateway_of(
    account: &ObjectName,
    infrastructure: &ChangeTracker<ObjectName, Arc<Infrastructure>>,
) -> Option<ObjectName> {
    let is_of = |gateway: &ObjectName| {
        gateway.namespace == account.namespace && child_name(&gateway.name) == *account.name
    };
    if infrastructure.get(account).is_some() && is_of(account) {
        return Some(account.clone());
    }
    let mut gateways = infrastructure.keys().into_iter();
    gateways.find(is_of)
}

/// Prefix of a service account's user name, followed by namespace, a colon and name.
pub(super) const USER_PREFIX: &str = "system:serviceaccount:";

/// The field of a token review with the pod that the token is bound to.
pub(super) const POD_NAME: &str = "authentication.kubernetes.io/pod-name";

#[cfg(test)]
mod tests {
    use super::*;

    fn board(gateways: &[&ObjectName]) -> ChangeTracker<ObjectName, Arc<Infrastructure>> {
        let board = ChangeTracker::default();
        for gateway in gateways.iter().copied() {
            board.set(gateway, Some(Arc::default()));
        }
        board
    }

    #[test]
    fn a_service_account_belongs_to_the_gateway_of_its_name() {
        let (web, long) = (
            ObjectName::new("a", "web"),
            ObjectName::new("a", &"l".repeat(200)),
        );
        let board = board(&[&web, &long]);
        assert_eq!(gateway_of(&web, &board), Some(web.clone()));
        let short = ObjectName::new("a", &child_name(&long.name));
        assert_eq!(gateway_of(&short, &board), Some(long.clone()));
        assert_eq!(gateway_of(&ObjectName::new("b", "web"), &board), None);
        assert_eq!(gateway_of(&ObjectName::new("a", "default"), &board), None);
        assert_eq!(gateway_of(&long, &board), None, "no account is called so");
    }
}
