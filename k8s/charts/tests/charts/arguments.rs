//! The variables that the chart sets are those that the controller reads.

use std::collections::BTreeSet;

use charts::{Helm, path};

use crate::read;

/// The variables that stand for flags: in `controller/src/args.rs`.
fn variables() -> BTreeSet<String> {
    let source = read(&path("../../controller/src/args.rs"));
    let uses = source.split("env = \"").skip(1);
    let names = uses.filter_map(|rest| rest.split_once('"'));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn the_controller_supports_every_argument_of_the_chart() {
    let Some(helm) = Helm::find() else { return };
    let known = variables();
    let objects = helm.objects("gateway", "{}").expect("it renders");
    let deployment = objects.iter().find(|object| object.kind() == "Deployment");
    let deployment = deployment.expect("a Deployment");
    let environment = deployment.at("/spec/template/spec/containers[controller]/env");
    let set = environment.as_array().expect("variables").iter();
    let set: Vec<_> = set
        .filter_map(|variable| variable["name"].as_str())
        .collect();
    assert!(set.len() > 10, "{set:?}");
    for name in set {
        assert!(
            known.contains(name),
            "the controller does not read {name}; it reads {known:?}"
        );
    }
}
