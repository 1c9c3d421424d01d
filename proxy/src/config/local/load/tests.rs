//! The counted cost of a change of a file, and its result.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use tempfile::TempDir;
use translate::{Options, Store, translate};
use xds::model::Model;

use super::{LoadWork, Loaded, Loader};
use crate::config::origin;

/// A directory of files, and what is loaded from it.
struct Scene {
    folder: TempDir,
    loader: Loader,
    model: Model,
}

impl Scene {
    /// A Gateway, and this many files with this many routes each.
    fn new(files: usize, routes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = vec![folder.path().to_owned()];
        let unknown_fields = translate::files::UnknownFields::Refuse;
        let loader = Loader::new(paths, unknown_fields, 8000, BTreeSet::new());
        let mut scene = Self {
            folder,
            loader,
            model: Model::default(),
        };
        scene.write("gateway.yaml", GATEWAY);
        for file in 0..files {
            scene.write_routes(file, routes, None);
        }
        scene.load();
        scene
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("a file");
    }

    /// Writes the routes of a file; one of them may differ from the initial one.
    fn write_routes(&self, file: usize, routes: usize, changed: Option<usize>) {
        let mut text = String::new();
        for number in 0..routes {
            let path = if changed == Some(number) { "b" } else { "a" };
            let route = ROUTE.replace("NAME", &format!("{file}-{number}"));
            text.write_str(&route.replace("PATH", path))
                .expect("a string takes everything");
        }
        self.write(&format!("routes-{file}.yaml"), &text);
    }

    /// Scans the files. Returns how many resources changed.
    fn load(&mut self) -> usize {
        match self.loader.load(&BTreeSet::new()) {
            Loaded::Changed(changes) => {
                let count = changes.len();
                self.model.apply(changes);
                count
            }
            Loaded::Same => 0,
            Loaded::Nothing => panic!("there are files"),
        }
    }

    /// A translation from scratch of everything in force.
    fn translated_from_scratch(&self) -> Model {
        let configuration = &self.loader.configuration;
        let store: Store = configuration.in_force().collect();
        let options = Options {
            port_offset: 8000,
            reserved_ports: BTreeSet::new(),
            ..Options::machine()
        };
        translate(&store, &options).model
    }
}

#[test]
fn the_cost_of_one_changed_route_does_not_depend_on_the_number_of_routes() {
    let costs = [(2, 5), (20, 25)].map(|(files, routes)| {
        let mut scene = Scene::new(files, routes);
        scene.write_routes(1, routes, Some(3));
        assert_eq!(scene.load(), 1, "one resource");
        let cost = scene.loader.last_work();
        assert_eq!(cost.documents, 1, "one document is parsed");
        assert_eq!(scene.model, scene.translated_from_scratch());
        cost
    });
    let [few, many] = costs;
    assert_eq!(few, many);
    assert!(few.units <= 4, "{few:?}");
}

#[test]
fn a_touched_but_unchanged_file_is_not_translated() {
    let mut scene = Scene::new(3, 4);
    scene.write_routes(2, 4, None);
    assert_eq!(scene.load(), 0);
    assert_eq!(scene.loader.last_work(), LoadWork::default());
}

#[test]
fn incremental_translation_equals_translation_from_scratch() {
    let mut scene = Scene::new(3, 4);
    let route = |name: &str, path| ROUTE.replace("NAME", name).replace("PATH", path);
    let steps = [
        ("routes-0.yaml", route("0-0", "b") + &route("new", "c")),
        // A duplicate: the object of the first file wins.
        ("routes-1.yaml", route("new", "d") + &route("1-1", "a")),
        // Rejected, and not YAML: the previous version stays.
        (
            "routes-0.yaml",
            route("0-0", "b") + &ROUTE.replace("NAME", "new").replace("/PATH", "no"),
        ),
        ("routes-2.yaml", "kind: [".to_owned()),
        ("routes-0.yaml", route("0-0", "b")),
        ("routes-2.yaml", route("2-2", "e")),
        ("gateway.yaml", GATEWAY.replace("port: 80", "port: 81")),
        ("routes-1.yaml", String::new()),
    ];
    for (file, text) in steps {
        scene.write(file, &text);
        scene.load();
        assert_eq!(
            scene.model,
            scene.translated_from_scratch(),
            "{file}: {text}"
        );
    }
    assert!(!scene.model.routes.is_empty());
}

#[test]
fn a_bind_is_traced_to_its_file() {
    let scene = Scene::new(1, 1);
    let bind = scene.model.binds.values().next().expect("a bind");
    let origin = scene.loader.origin(&bind.key);
    let place = format!("{}:6: ", scene.folder.path().join("gateway.yaml").display());
    assert_eq!(origin, format!("{place}Gateway default/web, listener http"));
    assert_eq!(origin::local_addresses([].into_iter()), BTreeSet::new());
}

const GATEWAY: &str = include_str!("../../../../tests/data/gateway.yaml");

const ROUTE: &str = "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: route-NAME}
spec:
  parentRefs: [{name: web}]
  hostnames: [host-NAME.example.com]
  rules:
  - matches: [{path: {type: PathPrefix, value: /PATH}}]
    filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]
";
