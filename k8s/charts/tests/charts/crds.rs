//! The definitions of our kinds are those in `k8s/crds`.

use std::fs;

use charts::{Helm, Object, objects, path};

use crate::read;

fn definitions() -> Vec<Object> {
    let folder = fs::read_dir(path("../crds")).expect("a folder");
    let files = folder.map(|entry| entry.expect("a file").path());
    let mut all: Vec<_> = files.flat_map(|file| objects(&read(&file))).collect();
    all.sort_by(|a, b| a.name().cmp(b.name()));
    all
}

#[test]
fn the_chart_installs_exactly_these_definitions() {
    let Some(helm) = Helm::find() else { return };
    let rendered = helm.objects("gateway-crds", "{commonLabels: {team: a}}");
    let mut rendered = rendered.expect("it renders");
    rendered.sort_by(|a, b| a.name().cmp(b.name()));
    let wanted = definitions();
    let names = |objects: &[Object]| objects.iter().map(Object::title).collect::<Vec<_>>();
    assert_eq!(names(&rendered), names(&wanted));
    for (rendered, wanted) in rendered.iter().zip(&wanted) {
        assert_eq!(
            rendered.at("/spec"),
            wanted.at("/spec"),
            "{}",
            wanted.name()
        );
        assert_eq!(rendered.at("/apiVersion"), wanted.at("/apiVersion"));
        assert_eq!(rendered.at("/metadata/labels/team"), "a");
        let own = wanted.at("/metadata/labels").as_object();
        for (label, value) in own.into_iter().flatten() {
            assert_eq!(rendered.at("/metadata/labels").get(label), Some(value));
        }
    }
}

#[test]
fn definitions_and_their_objects_are_kept_on_uninstall_by_default() {
    let Some(helm) = Helm::find() else { return };
    let policy = "/metadata/annotations/helm.sh~1resource-policy";
    let kept = helm.objects("gateway-crds", "{}").expect("it renders");
    assert!(
        kept.iter()
            .all(|definition| definition.at(policy) == "keep")
    );
    let removed = helm.objects("gateway-crds", "{keepOnUninstall: false}");
    let removed = removed.expect("it renders");
    assert!(
        removed
            .iter()
            .all(|definition| definition.at(policy).is_null())
    );
}

/// An API server rejects definitions with other constraints on metadata.
#[test]
fn definitions_do_not_constrain_metadata() {
    for definition in definitions() {
        let versions = definition
            .at("/spec/versions")
            .as_array()
            .expect("versions");
        for version in versions {
            let metadata = &version["schema"]["openAPIV3Schema"]["properties"]["metadata"];
            let is_left = metadata.is_null() || *metadata == serde_json::json!({"type": "object"});
            assert!(is_left, "{}: {metadata}", definition.name());
        }
    }
}
