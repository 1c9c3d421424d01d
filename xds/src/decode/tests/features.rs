//! What needs a feature that a proxy does not have is refused.

use prost::Message;

use super::{policy, problems, route};
use crate::decode::substitute;
use crate::model::{Feature, Kind, Resource};
use crate::proto;

/// A configuration that a later version saved must not be applied without its restrictions.
#[test]
fn what_needs_an_unknown_feature_is_refused_and_refuses_requests() {
    let mut message = policy();
    message.features = vec!["of-a-later-release".to_owned()];
    let bytes = message.encode_to_vec();
    let [problem] = &problems(Kind::Policy, &message)[..] else {
        panic!("one problem");
    };
    assert!(
        problem.starts_with("features[0]: `of-a-later-release`"),
        "{problem}"
    );
    let refusing = substitute(Kind::Policy, &message.key, &bytes);
    let Some(Resource::Policy(refusing)) = refusing else {
        panic!("{refusing:?}");
    };
    assert!(refusing.spec.is_invalid);

    let mut message = route::base();
    message.features = vec!["of-a-later-release".to_owned()];
    assert_eq!(problems(Kind::Route, &message).len(), 1);
    let bytes = message.encode_to_vec();
    assert!(substitute(Kind::Route, &message.key, &bytes).is_some());
}

/// So that a later release can restrict them.
#[test]
fn every_message_can_need_a_feature() {
    let features = || vec!["of-a-later-release".to_owned()];
    let bind = proto::Bind {
        features: features(),
        ..proto::Bind::default()
    };
    let listener = proto::Listener {
        features: features(),
        ..proto::Listener::default()
    };
    let service = proto::Service {
        features: features(),
        ..proto::Service::default()
    };
    let backend = proto::Backend {
        features: features(),
        ..proto::Backend::default()
    };
    for problems in [
        problems(Kind::Bind, &bind),
        problems(Kind::Listener, &listener),
        problems(Kind::Service, &service),
        problems(Kind::Backend, &backend),
    ] {
        let mut problems = problems.iter();
        assert!(problems.any(|it| it.starts_with("features[0]: `of-a-later-release`")));
    }
}

/// A policy that needs features restricts access, whatever it is that they restrict.
#[test]
fn a_policy_that_needs_a_feature_is_replaced_by_one_that_refuses_requests() {
    let mut message = policy();
    message.jwt = None;
    message.authorization = None;
    message.networks = None;
    let substitute =
        |message: &proto::Policy| substitute(Kind::Policy, &message.key, &message.encode_to_vec());
    assert!(substitute(&message).is_none());
    message.features = vec![Feature::ClockSkew.name().to_owned()];
    assert!(substitute(&message).is_some());
}
