//! The service accounts of Gateways' proxies, and the Gateways that they were made for.

use std::sync::{Mutex, PoisonError};

use xds::fast_hash::FastHashMap;
use xds::model::ObjectName;

/// The UID of the Gateway that each service account of the deployer belongs to. An account of the same
/// name that somebody else has made is not among them, and gives nobody access.
#[derive(Debug, Default)]
pub struct Accounts(Mutex<FastHashMap<ObjectName, String>>);

impl Accounts {
    /// Sets the owner of an account, or that it has none.
    pub fn set(&self, account: &ObjectName, owner: Option<String>) {
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match owner {
            Some(owner) => drop(owners.insert(account.clone(), owner)),
            None => drop(owners.remove(account)),
        }
    }

    /// Whether an account belongs to the Gateway with this UID.
    #[must_use]
    pub fn is_of(&self, account: &ObjectName, gateway: &str) -> bool {
        let owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        owners.get(account).is_some_and(|owner| owner == gateway)
    }
}
