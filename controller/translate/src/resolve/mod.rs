//! From objects to what they mean together: who attaches to whom, what each reference leads to,
//! who wins a conflict. What is wrong becomes a `Problem` beside the result, never an error.

pub(crate) mod address;
pub(crate) mod authority;
pub(crate) mod backend;
pub(crate) mod backend_tls;
pub(crate) mod backend_validation;
pub(crate) mod conflict;
pub(crate) mod frontend;
pub(crate) mod gateway;
pub(crate) mod listener;
pub(crate) mod listener_set;
pub(crate) mod namespaces;
pub(crate) mod overlap;
pub(crate) mod parent;
pub(crate) mod policy;
pub(crate) mod policy_fields;
pub(crate) mod policy_target;
pub(crate) mod protocol;
pub(crate) mod reference_grant;
pub(crate) mod route;
pub(crate) mod route_conflict;
pub(crate) mod route_object;
pub(crate) mod secret;
pub(crate) mod tls;

use crate::options::Options;
use crate::store::Store;
use backend::Backends;
use backend_tls::BackendTlsPolicies;
use namespaces::Namespaces;
use reference_grant::Grants;
use secret::Certificates;

/// What every step reads: the objects, and indexes over them.
pub(crate) struct World<'a> {
    pub(crate) store: &'a Store,
    pub(crate) options: &'a Options,
    pub(crate) grants: Grants<'a>,
    pub(crate) namespaces: Namespaces<'a>,
    pub(crate) backends: Backends<'a>,
    pub(crate) backend_tls: BackendTlsPolicies<'a>,
    pub(crate) certificates: Certificates,
}

impl<'a> World<'a> {
    pub(crate) fn of(store: &'a Store, options: &'a Options) -> Self {
        let mut world = Self {
            store,
            options,
            grants: Grants::of(store),
            namespaces: Namespaces::of(store),
            backends: Backends::default(),
            backend_tls: BackendTlsPolicies::default(),
            certificates: Certificates::default(),
        };
        world.backends = Backends::of(&world);
        world.backend_tls = BackendTlsPolicies::of(&world);
        world
    }
}
