//! Which Gateway a service account is of: the deployer makes one for each Gateway, named after it.

use std::fmt::Write as _;
use std::sync::Arc;

use translate::Infrastructure;
use xds::model::ObjectName;

use crate::board::Board;

/// The name of the objects that a Gateway runs on, its service account among them: its own, unless it is
/// longer than a label's value may be.
#[must_use]
pub fn child_name(gateway: &str) -> String {
    if gateway.len() <= LABEL_BYTES {
        return gateway.to_owned();
    }
    let hash = ring::digest::digest(&ring::digest::SHA256, gateway.as_bytes());
    let end = gateway.floor_char_boundary(KEPT_BYTES);
    let mut name = format!("{}-", gateway.get(..end).unwrap_or_default());
    for byte in hash.as_ref().iter().take(HASH_BYTES) {
        // A String takes whatever is written.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// The Gateway of a service account, if it is of one that this controller serves.
#[must_use]
pub fn gateway_of(
    account: &ObjectName,
    infrastructure: &Board<ObjectName, Arc<Infrastructure>>,
) -> Option<ObjectName> {
    if infrastructure.get(account).is_some() && account.name.len() <= LABEL_BYTES {
        return Some(account.clone());
    }
    let gateways = infrastructure.keys().into_iter();
    let mut shortened = gateways.filter(|gateway| gateway.name.len() > LABEL_BYTES);
    shortened.find(|gateway| {
        gateway.namespace == account.namespace && child_name(&gateway.name) == *account.name
    })
}

/// How the user of a service account is called; its namespace, a colon and its name follow.
pub(super) const USER_PREFIX: &str = "system:serviceaccount:";

/// Where the review of a token says to which pod it is bound.
pub(super) const POD_NAME: &str = "authentication.kubernetes.io/pod-name";

/// Bytes of a label's value, of a Service's name and of a pod's hostname (RFC 1123 label).
const LABEL_BYTES: usize = 63;

/// Bytes of a long name that are kept.
const KEPT_BYTES: usize = 50;

/// Bytes of the hash that follow; twice as many digits.
const HASH_BYTES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn board(gateways: &[&ObjectName]) -> Board<ObjectName, Arc<Infrastructure>> {
        let board = Board::default();
        for gateway in gateways.iter().copied() {
            board.set(gateway, Some(Arc::default()));
        }
        board
    }

    #[test]
    fn long_names_are_shortened_and_stay_different() {
        let (one, two) = ("a".repeat(100), "a".repeat(101));
        assert_eq!(child_name("web"), "web");
        assert_eq!(child_name(&one).len(), LABEL_BYTES);
        assert_ne!(child_name(&one), child_name(&two));
    }

    #[test]
    fn an_account_is_of_the_gateway_that_it_is_named_after() {
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
