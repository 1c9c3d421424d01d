//! Which listeners an acknowledgement or rejection concerns.

use xds::model::{ObjectName, Transport};

use super::*;

fn listener(owner: &str) -> ResourceKey {
    ResourceKey {
        kind: Kind::Listener,
        key: owner.into(),
    }
}

fn bind(port: u16) -> BindKey {
    BindKey::new(Transport::Tcp, port, &ObjectName::new("default", "edge"))
}

fn refused_bind(port: u16) -> ResourceKey {
    ResourceKey {
        kind: Kind::Bind,
        key: bind(port).as_str().into(),
    }
}

fn acknowledgements() -> Acknowledgements {
    let listeners = ["Gateway/default/edge/web", "ListenerSet/a/one/web"];
    Acknowledgements {
        connected: 2,
        listeners: listeners.map(|it| (listener(it), 1)).into(),
        session_keys: None,
        refused: BTreeMap::from([(listener("ListenerSet/a/one/tls"), "no".to_owned())]),
        symptoms: BTreeMap::new(),
    }
}

/// The listeners of a Gateway, and their binds.
fn listeners() -> Vec<(ResourceKey, BindKey)> {
    vec![
        (listener("Gateway/default/edge/web"), bind(80)),
        (listener("ListenerSet/a/one/tls"), bind(443)),
        (listener("ListenerSet/a/one/web"), bind(80)),
        (listener("ListenerSet/a/one/other"), bind(443)),
    ]
}

#[test]
fn an_object_has_the_acknowledgements_of_its_own_listeners() {
    let own = "ListenerSet/a/one/";
    let counts = ack_counts(&listeners()[1..], Some(&acknowledgements()), None, own);
    let of = |name: &str| {
        let acks = &counts[name];
        (acks.connected, acks.accepted, acks.refused.as_deref())
    };
    assert_eq!(of("web"), (2, 1, None));
    assert_eq!(of("tls"), (2, 0, Some("no")));
    assert_eq!(of("other"), (2, 0, None));
    let own = "Gateway/default/edge/";
    let counts = ack_counts(&listeners(), None, None, own);
    assert_eq!(counts["web"], AckCount::default());
    assert!(counts.contains_key("ListenerSet/a/one/web"), "{counts:?}");
}

#[test]
fn the_rejection_of_a_bind_concerns_the_listeners_on_it_alone() {
    let mut known = acknowledgements();
    known.refused.insert(refused_bind(80), "in use".to_owned());
    let counts = ack_counts(&listeners(), Some(&known), None, "Gateway/default/edge/");
    let refused = |name: &str| counts[name].refused.as_deref();
    assert_eq!(refused("web"), Some("in use"));
    assert_eq!(refused("ListenerSet/a/one/web"), Some("in use"));
    assert_eq!(refused("ListenerSet/a/one/tls"), Some("no"));
    assert_eq!(refused("ListenerSet/a/one/other"), None);
}

#[test]
fn a_listener_lacks_its_port_if_the_service_is_known_and_has_others() {
    let web = Port {
        transport: crate::deploy::ports::Transport::Tcp,
        number: 80,
    };
    let ports = BTreeSet::from([web]);
    let known = acknowledgements();
    let own = "ListenerSet/a/one/";
    let counts = ack_counts(&listeners(), Some(&known), Some(&ports), own);
    assert_eq!(counts["web"].missing_port, None);
    assert_eq!(counts["tls"].missing_port, Some(443));
    let counts = ack_counts(&listeners(), Some(&known), None, own);
    assert_eq!(counts["tls"].missing_port, None);
}

#[test]
fn a_changed_acknowledgement_concerns_its_listener_only() {
    let before = acknowledgements();
    let changed = |after: &Acknowledgements| -> Vec<ResourceKey> {
        changed_resources(&before, after)
            .into_iter()
            .cloned()
            .collect()
    };
    assert!(changed(&before).is_empty());
    let mut after = before.clone();
    let web = listener("ListenerSet/a/one/web");
    after.listeners.insert(web.clone(), 2);
    assert_eq!(changed(&after), [web]);
    let mut after = before.clone();
    after.refused.clear();
    assert_eq!(changed(&after), [listener("ListenerSet/a/one/tls")]);
}

#[test]
fn connections_of_proxies_and_rejected_binds_concern_all_listeners() {
    let before = acknowledgements();
    let mut connected = before.clone();
    connected.connected = 3;
    let mut rejected = before.clone();
    rejected
        .refused
        .insert(refused_bind(80), "in use".to_owned());
    for after in [connected, rejected, Acknowledgements::default()] {
        let changed = changed_resources(&before, &after);
        assert!(before.listeners.keys().all(|it| changed.contains(it)));
    }
}
