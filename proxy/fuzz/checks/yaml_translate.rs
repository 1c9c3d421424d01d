//! Any file: nothing in it panics, and what comes out holds together.

use translate::files::{Source, admit};
use translate::{Options, Store, Translation, translate};
use xds::{decode, encode};

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
        check_model(&translation);
        for problem in translation.statuses.problem_conditions() {
            assert!(!problem.message.is_empty(), "{problem}");
        }
    }
}

/// No proxy would refuse any of it: every resource keeps its value on the way, and refers only to
/// what is there.
fn check_model(Translation { model, .. }: &Translation) {
    assert_eq!(model.dangling(), []);
    for resource in model.resources() {
        let bytes = encode::resource(&resource);
        assert_eq!(decode::resource(resource.kind(), &bytes), Ok(resource));
    }
}
