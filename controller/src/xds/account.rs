//! Maps service accounts to Gateways: the deployer creates one for each Gateway, named after it.

use std::sync::Arc;

use translate::Infrastructure;
use translate::naming::child_name;
use xds::model::ObjectName;

use crate::change_tracker::ChangeTracker;
use crate::outputs::Outputs;

/// The Gateway that a service account was made for, if this controller serves it.
#[must_use]
pub fn gateway_of(account: &ObjectName, outputs: &Outputs) -> Option<ObjectName> {
    let gateway = gateway_by_name(account, &outputs.infrastructure)?;
    let uid = outputs.gateways.get(&gateway)?.uid;
    outputs.accounts.is_of(account, &uid).then_some(gateway)
}

fn gateway_by_name(
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

/// The field of a token review with the node of that pod.
pub(super) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::ExistingGateway;

    /// With the accounts of these Gateways, whose UIDs are their names.
    fn outputs(gateways: &[&ObjectName]) -> Outputs {
        let outputs = Outputs::default();
        for gateway in gateways.iter().copied() {
            outputs.infrastructure.set(gateway, Some(Arc::default()));
            let existing = ExistingGateway {
                uid: (&*gateway.name).into(),
                class: None,
            };
            outputs.gateways.set(gateway, Some(existing));
            let account = ObjectName::new(&gateway.namespace, &child_name(&gateway.name));
            let owner = Some(gateway.name.to_string());
            outputs.accounts.set(&account, owner);
        }
        outputs
    }

    #[test]
    fn a_service_account_belongs_to_the_gateway_of_its_name() {
        let (web, long) = (
            ObjectName::new("a", "web"),
            ObjectName::new("a", &"l".repeat(200)),
        );
        let outputs = outputs(&[&web, &long]);
        assert_eq!(gateway_of(&web, &outputs), Some(web.clone()));
        let short = ObjectName::new("a", &child_name(&long.name));
        assert_eq!(gateway_of(&short, &outputs), Some(long.clone()));
        assert_eq!(gateway_of(&ObjectName::new("b", "web"), &outputs), None);
        assert_eq!(gateway_of(&ObjectName::new("a", "default"), &outputs), None);
        assert_eq!(gateway_of(&long, &outputs), None, "no account is called so");
    }

    #[test]
    fn an_account_that_the_deployer_did_not_make_for_the_gateway_is_none_of_it() {
        let web = ObjectName::new("a", "web");
        let outputs = outputs(&[&web]);
        for owner in [None, Some("an earlier one".to_owned())] {
            outputs.accounts.set(&web, owner);
            assert_eq!(gateway_of(&web, &outputs), None);
        }
    }
}
