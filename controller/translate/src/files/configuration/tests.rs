mod policies;
mod stand_ins;

use super::{Configuration, Reload};
use crate::backend::api::Service;
use crate::engine::Event;
use crate::files::{Reason, Severity, Source, admit};
use crate::objects::api::Resource as _;
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Store;
use proptest::prelude::*;
use xds::model::ObjectName;

fn service(name: &str, port: u16) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  ports:\n    - port: {port}\n"
    )
}

fn name(name: &str) -> ObjectName {
    ObjectName::new("default", name)
}

fn reference(object: &str) -> ObjectRef {
    ObjectRef::of::<Service>(&name(object))
}

fn ports(configuration: &Configuration) -> Vec<(String, u16)> {
    let store: Store = configuration.in_force().collect();
    let services = store.services.values();
    let port = |service: &Service| service.spec.ports.first().map_or(0, |port| port.port.get());
    let mut ports: Vec<_> = services
        .map(|service| (service.metadata().name.name.to_string(), port(service)))
        .collect();
    ports.sort();
    ports
}

fn load(configuration: &mut Configuration, files: &[(&str, &str)]) -> Reload {
    let sources: Vec<_> = files
        .iter()
        .map(|(name, text)| Source::new(*name, *text))
        .collect();
    configuration.reload(&sources)
}

fn reasons(reload: &Reload) -> Vec<Reason> {
    reload
        .findings
        .iter()
        .map(|finding| finding.reason)
        .collect()
}

#[test]
fn unchanged_files_change_nothing() {
    let mut configuration = Configuration::default();
    let files = [
        ("a.yaml", &*service("a", 80)),
        ("b.yaml", &*service("b", 81)),
    ];
    assert!(load(&mut configuration, &files).changed());
    assert_eq!(load(&mut configuration, &files), Reload::default());
    assert_eq!(ports(&configuration), [("a".into(), 80), ("b".into(), 81)]);
}

#[test]
fn a_moved_document_changes_only_its_line() {
    let mut configuration = Configuration::default();
    load(&mut configuration, &[("a.yaml", &service("a", 80))]);
    assert_eq!(
        configuration.locate(&reference("a"), Some("spec.ports[0].port")),
        Some(("a.yaml", 8))
    );
    let moved = format!("# one\n# two\n{}", service("a", 80));
    assert!(!load(&mut configuration, &[("a.yaml", &moved)]).changed());
    assert_eq!(
        configuration.locate(&reference("a"), None),
        Some(("a.yaml", 4))
    );
}

#[test]
fn objects_are_changed_and_removed() {
    let mut configuration = Configuration::default();
    let both = service("a", 80) + &service("b", 81);
    load(
        &mut configuration,
        &[("a.yaml", &both), ("c.yaml", &service("c", 82))],
    );
    let reload = load(&mut configuration, &[("a.yaml", &service("a", 90))]);
    assert!(reload.changed());
    assert_eq!(ports(&configuration), [("a".into(), 90)]);
    assert_eq!(configuration.locate(&reference("b"), None), None);
}

#[test]
fn a_rejected_object_keeps_its_previous_version() {
    let mut configuration = Configuration::default();
    load(
        &mut configuration,
        &[("a.yaml", &(service("a", 80) + &service("b", 81)))],
    );
    let reload = load(
        &mut configuration,
        &[("a.yaml", &(service("a", 0) + &service("b", 91)))],
    );
    assert_eq!(reasons(&reload), [Reason::Invalid, Reason::PreviousKept]);
    assert_eq!(
        reload.findings[1].text,
        "the previous version of Service default/a stays in effect"
    );
    assert_eq!(ports(&configuration), [("a".into(), 80), ("b".into(), 91)]);
}

#[test]
fn objects_that_a_malformed_document_may_hold_keep_their_previous_version() {
    let mut configuration = Configuration::default();
    load(
        &mut configuration,
        &[("a.yaml", &(service("a", 80) + &service("b", 81)))],
    );
    let broken = service("a", 90) + "---\nkind: [Service\n";
    let reload = load(&mut configuration, &[("a.yaml", &broken)]);
    assert_eq!(reasons(&reload), [Reason::NotYaml, Reason::PreviousKept]);
    assert_eq!(ports(&configuration), [("a".into(), 90), ("b".into(), 81)]);
    // Repaired, and without it: now it is gone.
    assert!(load(&mut configuration, &[("a.yaml", &service("a", 90))]).changed());
    assert_eq!(ports(&configuration), [("a".into(), 90)]);
}

#[test]
fn an_object_that_loses_its_name_keeps_its_previous_version() {
    let mut configuration = Configuration::default();
    load(&mut configuration, &[("a.yaml", &service("a", 80))]);
    let reload = load(
        &mut configuration,
        &[("a.yaml", "apiVersion: v1\nkind: Service\n")],
    );
    assert_eq!(reasons(&reload), [Reason::Required, Reason::PreviousKept]);
    assert_eq!(ports(&configuration), [("a".into(), 80)]);
}

#[test]
fn an_unreadable_file_keeps_its_objects_and_a_removed_file_loses_them() {
    let mut configuration = Configuration::default();
    load(&mut configuration, &[("a.yaml", &service("a", 80))]);
    let reload = configuration.reload(&[Source::unreadable("a.yaml", "permission denied")]);
    assert_eq!(reasons(&reload), [Reason::Unreadable, Reason::PreviousKept]);
    assert!(!reload.changed());
    assert!(configuration.reload(&[]).changed());
    assert!(ports(&configuration).is_empty());
}

#[test]
fn an_emptied_file_is_reported_once() {
    for emptied in ["", "# nothing\n---\n"] {
        let mut configuration = Configuration::default();
        let kept = service("b", 81);
        load(
            &mut configuration,
            &[("a.yaml", &service("a", 80)), ("b.yaml", &kept)],
        );
        let files = [("a.yaml", emptied), ("b.yaml", &kept)];
        let reload = load(&mut configuration, &files);
        assert_eq!(reasons(&reload), [Reason::Emptied]);
        let message = reload.findings[0].to_string();
        assert_eq!(
            message,
            "a.yaml: has no objects now; those it had are removed"
        );
        assert!(reload.changed());
        assert_eq!(ports(&configuration), [("b".into(), 81)]);
        assert_eq!(load(&mut configuration, &files), Reload::default());
    }
}

#[test]
fn a_file_whose_objects_moved_or_were_replaced_is_not_reported_as_emptied() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n";
    for (text, other, reason) in [
        ("", service("a", 80), None),
        (deployment, service("b", 81), Some(Reason::UnknownKind)),
        ("kind: [", service("b", 81), Some(Reason::NotYaml)),
    ] {
        let mut configuration = Configuration::default();
        load(&mut configuration, &[("a.yaml", &service("a", 80))]);
        let reload = load(&mut configuration, &[("a.yaml", text), ("b.yaml", &other)]);
        assert_eq!(reasons(&reload).first().copied(), reason, "{text}");
        assert!(!reasons(&reload).contains(&Reason::Emptied), "{text}");
    }
}

#[test]
fn an_object_may_move_to_another_file() {
    let mut configuration = Configuration::default();
    load(&mut configuration, &[("a.yaml", &service("a", 80))]);
    let reload = load(
        &mut configuration,
        &[("a.yaml", "x: ["), ("b.yaml", &service("a", 90))],
    );
    assert_eq!(reasons(&reload), [Reason::NotYaml]);
    assert_eq!(ports(&configuration), [("a".into(), 90)]);
    assert_eq!(
        configuration
            .locate(&reference("a"), None)
            .map(|(file, _)| file),
        Some("b.yaml")
    );
}

#[test]
fn the_first_of_two_duplicates_wins_until_it_is_removed() {
    let mut configuration = Configuration::default();
    let (first, second) = (service("a", 80), service("a", 90));
    let reload = load(
        &mut configuration,
        &[("a.yaml", &first), ("b.yaml", &second)],
    );
    assert_eq!(reasons(&reload), [Reason::Duplicate]);
    assert!(
        reload.findings[0].text.contains("a.yaml:2"),
        "{}",
        reload.findings[0]
    );
    assert_eq!(ports(&configuration), [("a".into(), 80)]);
    load(&mut configuration, &[("b.yaml", &second)]);
    assert_eq!(ports(&configuration), [("a".into(), 90)]);
}

#[test]
fn a_change_of_a_second_definition_in_a_file_leaves_the_first_in_effect() {
    let mut configuration = Configuration::default();
    let both = |port| service("a", 80) + &service("a", port);
    load(&mut configuration, &[("a.yaml", &both(81))]);
    let reload = load(&mut configuration, &[("a.yaml", &both(82))]);
    assert!(!reload.changed());
    assert_eq!(ports(&configuration), [("a".into(), 80)]);
    let first = configuration.locate(&reference("a"), None);
    assert_eq!(first, Some(("a.yaml", 2)));
    // Without the first, the second takes over.
    assert!(load(&mut configuration, &[("a.yaml", &service("a", 82))]).changed());
    assert_eq!(ports(&configuration), [("a".into(), 82)]);
}

#[test]
fn a_repeated_finding_is_not_new() {
    let mut configuration = Configuration::default();
    let wrong = service("a", 0);
    let reload = load(&mut configuration, &[("a.yaml", &wrong)]);
    assert_eq!((reload.findings.len(), reload.repeated.len()), (1, 0));
    // At another line of the file it is still the same finding.
    let moved = service("b", 81) + &wrong;
    let reload = load(&mut configuration, &[("a.yaml", &moved)]);
    assert_eq!((reload.findings.len(), reload.repeated.len()), (0, 1));
    // Repaired and broken again, it is logged again.
    load(&mut configuration, &[("a.yaml", &service("a", 80))]);
    assert_eq!(
        load(&mut configuration, &[("a.yaml", &wrong)])
            .findings
            .len(),
        2
    );
}

#[test]
fn fields_are_located_by_line() {
    let mut configuration = Configuration::default();
    load(
        &mut configuration,
        &[("a.yaml", &(service("a", 80) + &service("b", 81)))],
    );
    for (field, line) in [
        (None, 10),
        (Some("metadata.name"), 13),
        (Some("spec.ports[0]"), 16),
        (Some("spec.ports[7].port"), 15),
        (Some("spec.type"), 14),
    ] {
        let location = configuration.locate(&reference("b"), field);
        assert_eq!(location, Some(("a.yaml", line)), "{field:?}");
    }
}

#[test]
fn findings_are_formatted_with_file_line_object_and_field() {
    let mut configuration = Configuration::default();
    let reload = load(&mut configuration, &[("a.yaml", &service("a", 0))]);
    assert_eq!(
        reload.findings[0].to_string(),
        "a.yaml:8: Service default/a spec.ports[0].port: 0 is not an integer from 1 to 65535"
    );
    assert_eq!(reload.findings[0].severity, Severity::Error);
}

/// Any history of three files, with unchanged, changed, duplicate, rejected or malformed documents.
fn histories() -> impl Strategy<Value = Vec<[Option<Vec<u8>>; 3]>> {
    let file = prop::option::weighted(0.8, prop::collection::vec(0_u8..14, 0..4));
    prop::collection::vec([file.clone(), file.clone(), file], 1..6)
}

fn document(number: u8) -> String {
    match number {
        12 => "---\nkind: [\n".to_owned(),
        13 => "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n".to_owned(),
        // Port 0 is refused.
        _ => service(
            ["a", "b", "c"][usize::from(number % 3)],
            u16::from(number / 3),
        ),
    }
}

fn sources(files: &[Option<Vec<u8>>; 3]) -> Vec<Source> {
    let names = ["a.yaml", "b.yaml", "c.yaml"].into_iter().zip(files);
    let sources = names.filter_map(|(name, numbers)| {
        let documents = numbers.as_ref()?.iter().map(|number| document(*number));
        Some(Source::new(name, documents.collect::<String>()))
    });
    sources.collect()
}

proptest! {
    /// Regardless of earlier files, the objects admitted now are in force, any other object in
    /// force has a finding that says why, and the events add up to exactly these objects.
    #[test]
    fn incremental_reloads_equal_a_load_of_the_last_files(history in histories()) {
        let mut configuration = Configuration::default();
        let mut store = Store::default();
        for files in &history {
            let sources = sources(files);
            let reload = configuration.reload(&sources);
            for event in reload.events {
                match event {
                    Event::Upsert(object) => store.insert(object),
                    Event::Delete(object) => prop_assert!(store.remove(&object)),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            let in_force: Store = configuration.in_force().collect();
            prop_assert_eq!(&in_force, &store);
            let admitted = admit(&sources);
            for (object, source) in &admitted.objects {
                let reference = object.object_ref();
                let kept = in_force.get(&reference);
                prop_assert_eq!(kept.as_ref(), Some(object));
                let location = configuration.locate(&reference, None);
                prop_assert_eq!(location, Some((&*source.file, source.line)));
            }
            let kept = in_force.objects().count() - admitted.objects.len();
            prop_assert_eq!(kept, configuration.objects.kept.len());
            let reported = reload.findings.iter().chain(&reload.repeated);
            let reported = reported.filter(|it| it.reason == Reason::PreviousKept).count();
            prop_assert_eq!(reported > 0, kept > 0);
            let again = configuration.reload(&sources);
            prop_assert!(again.events.is_empty() && again.parsed == 0);
        }
    }
}

#[test]
fn only_the_changed_document_is_parsed() {
    let mut configuration = Configuration::default();
    let other = service("c", 82);
    let file = |port| service("a", port) + &service("b", 81);
    let first = load(
        &mut configuration,
        &[("a.yaml", &file(80)), ("b.yaml", &other)],
    );
    assert_eq!(first.parsed, 3);
    let changed = load(
        &mut configuration,
        &[("a.yaml", &file(90)), ("b.yaml", &other)],
    );
    assert_eq!((changed.parsed, changed.events.len()), (1, 1));
    // A renamed file is parsed again, and its objects are unchanged.
    let moved = load(
        &mut configuration,
        &[("c.yaml", &file(90)), ("b.yaml", &other)],
    );
    assert_eq!((moved.parsed, moved.events.len()), (2, 0));
    assert_eq!(
        configuration.locate(&reference("a"), None).map(|it| it.0),
        Some("c.yaml")
    );
}
