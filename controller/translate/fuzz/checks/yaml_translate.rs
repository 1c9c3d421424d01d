//! Any file: nothing in it panics, and what comes out holds together.

use translate::admit::{Source, admit};
use translate::{Options, Store, Translation, translate};

/// Checks a file of these bytes, on a machine and in a cluster.
pub(crate) fn check(data: &[u8]) {
    let admitted = admit(&[Source::from_bytes("any.yaml", data.to_vec())]);
    let objects = admitted.objects.into_iter().map(|(object, _)| object);
    let store: Store = objects.collect();
    let offset = Options {
        port_offset: 8000,
        ..Options::machine()
    };
    for options in [Options::machine(), Options::cluster(), offset] {
        let translation = translate(&store, &options);
        check_parents(&translation);
        for unhappy in translation.statuses.unhappy() {
            assert!(!unhappy.message.is_empty(), "{unhappy}");
        }
    }
}

/// Children name parents that are there.
fn check_parents(Translation { model, .. }: &Translation) {
    for listener in model.listeners.values() {
        assert!(model.binds.contains_key(&listener.bind), "{listener:?}");
    }
    for route in model.routes.values() {
        assert!(model.listeners.contains_key(&route.listener), "{route:?}");
        assert!(!route.rule.matches.is_empty(), "{route:?}");
    }
    for workload in model.workloads.values() {
        assert!(!workload.serves.is_empty(), "{workload:?}");
        for serves in &workload.serves {
            assert!(model.services.contains_key(&serves.service), "{workload:?}");
        }
    }
}
