//! Authorization rules.

use proptest::collection::vec;
use proptest::prelude::*;
use xds::model::{AuthorizationPolicy, AuthorizationRule};

prop_compose! {
    pub(super) fn authorization()(
        deny in vec(rule(), 0..3),
        allow in vec(rule(), 0..3),
    ) -> AuthorizationPolicy {
        AuthorizationPolicy { deny, allow }
    }
}

prop_compose! {
    fn rule()(
        name in "[a-z]{0,8}",
        when in "claims\\.[a-z]{1,8}",
    ) -> AuthorizationRule {
        AuthorizationRule { name, when }
    }
}
