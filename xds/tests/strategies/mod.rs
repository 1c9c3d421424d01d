//! Proptest strategies of every resource. Values are made as `translate` makes them: through the
//! model's constructors where there are some. The large ones are boxed: their values and shrinking
//! state would not fit on the stack of a test's thread.

mod answer;
mod api_keys;
mod authorization;
mod balance;
mod basic_auth;
mod endpoint;
mod filter;
mod health_check;
mod jwt;
mod path_rewrite;
mod policy;
mod rate_limit;
mod route;
mod session_keys;
mod tls;
mod value;

use proptest::prelude::*;
use xds::model::{Kind, Resource};

/// A resource of any kind.
pub(crate) fn resource() -> impl Strategy<Value = Resource> {
    prop_oneof![
        endpoint::bind().prop_map(Resource::from).boxed(),
        endpoint::listener().prop_map(Resource::from).boxed(),
        endpoint::service().prop_map(Resource::from).boxed(),
        endpoint::backend().prop_map(Resource::from).boxed(),
        endpoint::workload().prop_map(Resource::from).boxed(),
        route::route().prop_map(Resource::from).boxed(),
        policy::policy().prop_map(Resource::from).boxed(),
    ]
}

pub(crate) fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(&Kind::ALL[..])
}
