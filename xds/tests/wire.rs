//! The wire form preserves every value, and arbitrary bytes are handled safely.

mod strategies;

use proptest::prelude::*;
use xds::delta::Version;
use xds::model::{Kind, Model, Resource};
use xds::{decode, encode};

proptest! {
    #[test]
    fn encoded_resources_decode_to_the_same(resource in strategies::resource()) {
        let bytes = encode::resource(&resource);
        prop_assert_eq!(decode::resource(resource.kind(), &bytes), Ok(resource));
    }

    #[test]
    fn versions_differ_for_different_resources(
        a in strategies::resource(),
        b in strategies::resource(),
    ) {
        let (first, second) = (encode::resource(&a), encode::resource(&b));
        prop_assert_eq!(a == b, Version::of(&first) == Version::of(&second));
        prop_assert_eq!(encode::resource(&a.clone()), first);
    }

    #[test]
    fn random_bytes_never_panic(
        kind in strategies::kind(),
        bytes in prop::collection::vec(any::<u8>(), 0..256),
    ) {
        let _ = decode::resource(kind, &bytes);
    }

    #[test]
    fn corrupted_bytes_decode_or_report_the_problem(
        resource in strategies::resource(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        truncated in any::<bool>(),
    ) {
        let mut bytes = encode::resource(&resource);
        for (index, byte) in edits {
            *index.get_mut(&mut bytes) = byte;
        }
        if truncated {
            bytes.truncate(cut.index(bytes.len()));
        }
        match decode::resource(resource.kind(), &bytes) {
            // A decoded resource is a value like any other.
            Ok(changed) => {
                let again = decode::resource(changed.kind(), &encode::resource(&changed));
                prop_assert_eq!(again, Ok(changed));
            }
            Err(problems) => prop_assert!(!problems.to_string().is_empty()),
        }
    }

    #[test]
    fn decoding_as_another_kind_never_panics(
        resource in strategies::resource(),
        kind in strategies::kind(),
    ) {
        let _ = decode::resource(kind, &encode::resource(&resource));
    }

    #[test]
    fn unknown_fields_are_ignored(resource in strategies::resource()) {
        let mut bytes = encode::resource(&resource);
        // Field 1000, a varint of 1: what a later version may add.
        bytes.extend([0xc0, 0x3e, 0x01]);
        prop_assert_eq!(decode::resource(resource.kind(), &bytes), Ok(resource));
    }

    #[test]
    fn a_model_returns_the_inserted_resources(
        resources in prop::collection::vec(strategies::resource(), 0..8),
    ) {
        let mut model = Model::default();
        for resource in &resources {
            model.insert(resource.clone());
        }
        let mut copy = Model::default();
        for resource in model.resources() {
            copy.insert(resource);
        }
        prop_assert_eq!(&copy, &model);
        for resource in &resources {
            copy.remove(resource.kind(), resource.key());
        }
        prop_assert_eq!(copy, Model::default());
    }

    #[test]
    fn applying_the_changes_between_two_models_gives_the_second(
        old in prop::collection::vec(strategies::resource(), 0..8),
        new in prop::collection::vec(strategies::resource(), 0..8),
        kept in prop::collection::vec(any::<bool>(), 8),
    ) {
        let model = |resources: &[Resource]| {
            let mut model = Model::default();
            for resource in resources {
                model.insert(resource.clone());
            }
            model
        };
        let kept = old.iter().zip(kept).filter(|(_, kept)| *kept);
        let new: Vec<Resource> = kept.map(|(it, _)| it.clone()).chain(new).collect();
        let (mut changed, new) = (model(&old), model(&new));
        let changes = changed.changes_to(&new);
        for (key, resource) in &changes {
            prop_assert_ne!(&changed.resource(key.kind, &key.key), resource);
        }
        changed.apply(changes);
        prop_assert_eq!(changed, new);
    }
}

#[test]
fn a_version_is_the_same_in_every_process() {
    // The first 64 bits of SHA-256 of nothing (FIPS 180-4): e3b0c442 98fc1c14.
    let version = Version::of(b"");
    assert_eq!(version.to_string(), "47DEQpj8HBQ");
    assert_eq!("47DEQpj8HBQ".parse(), Ok(version));
}

#[test]
fn an_empty_message_is_not_a_resource() {
    for kind in Kind::ALL {
        let problems = decode::resource(kind, b"").expect_err("a key is required");
        assert_eq!(problems.0[0].to_string(), "key: is missing");
    }
}
