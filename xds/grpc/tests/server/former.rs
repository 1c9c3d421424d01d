//! Proxies of the release before, which get a rule once for each listener.

use std::ops::Range;
use std::sync::Arc;

use tonic::Code;
use xds::delta::{Encoded, Member, Publication};
use xds::model::{
    Attachment, Kind, L4Rule, ListenerKey, ObjectName, Resource, ResourceKey, Route, RouteKey,
    RouteRule,
};

use crate::support::{Controller, ServerEvent, web};

/// Rules of route `a/shop` with these numbers, each at 64 listeners of [`web`].
fn rules(numbers: Range<u16>) -> Publication {
    let listeners = (0..64).map(|number| Attachment {
        listener: ListenerKey::new("Gateway", &web(), &format!("l{number}")),
        hostnames: [].into(),
    });
    let template = Route {
        key: RouteKey::new("TCPRoute", &ObjectName::new("a", "shop"), 0, &web()),
        attachments: listeners.collect(),
        created: 1,
        rule: RouteRule::Tcp(L4Rule {
            name: None,
            backends: Vec::new(),
        }),
    };
    let mut publication = Publication::default();
    for number in numbers {
        let route = RouteKey::new("TCPRoute", &ObjectName::new("a", "shop"), number, &web());
        let key = ResourceKey {
            kind: Kind::Route,
            key: route.to_shared(),
        };
        let route = Resource::from(Route {
            key: route,
            ..template.clone()
        });
        let encoded = Arc::new(Encoded::new(&route));
        publication.resources.push((key.clone(), Some(encoded)));
        publication.members.push((web(), key, Member::Joined));
    }
    publication
}

#[tokio::test]
async fn proxies_that_connect_together_get_what_one_derives() {
    let controller = Controller::start().await;
    controller.published.publish(rules(0..40));
    let mut proxies = Vec::new();
    for number in 0..8 {
        proxies.push(controller.proxy(&format!("p{number}")).await);
    }
    for proxy in &mut proxies {
        let batch = proxy.batch().await;
        let rules = batch.iter().map(|response| response.resources.len());
        assert_eq!(rules.sum::<usize>(), 40 * 64);
        proxy.acknowledge(&batch).await;
    }
    assert_eq!(controller.batches(), 1, "it is encoded once");
}

/// Its configuration would be up to 64 times as large as what that release admitted.
#[tokio::test]
async fn a_proxy_whose_gateway_has_too_many_rules_for_it_has_to_be_upgraded() {
    let controller = Controller::start().await;
    controller.published.publish(rules(0..1));
    let mut proxy = controller.proxy("p").await;
    let batch = proxy.batch().await;
    proxy.acknowledge(&batch).await;
    controller.published.publish(rules(1..2_561));
    let mut late = controller.proxy("late").await;
    for stream in [&mut proxy, &mut late] {
        let status = stream.end().await;
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains("upgrade the proxies"), "{status}");
        let outdated = |seen: &ServerEvent| *seen == ServerEvent::Outdated;
        controller.sees("a/web", outdated).await;
    }
}
