//! The status that manifests would have in a gateway that reads them from files.

use std::path::PathBuf;

use anyhow::{Result, bail};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use translate::check::{Slices, expect_slices, refused};
use translate::diagnosis::{Hints, Others, diagnose};
use translate::files::{Configuration, UnknownFields};
use translate::status::Status;
use translate::{Level, Object as Admitted, ObjectRef, Options, Statuses, Store, translate};

use super::objects::Object;
use super::report::{Everything, Findings, Report};
use crate::{check, files};

/// The status of each Gateway in the files, and of what belongs to none.
///
/// # Errors
///
/// A file cannot be read, or there is no such Gateway.
pub(super) fn reports(
    paths: &[PathBuf],
    name: Option<&str>,
    namespace: Option<&str>,
) -> Result<Vec<Report>> {
    let mut configuration = Configuration::new(UnknownFields::Refuse);
    let findings = configuration.reload(&files::read(paths)?).findings;
    let store: Store = configuration.in_force().collect();
    let options = Options {
        now: Some(Timestamp::now()),
        ..check::options(&store)
    };
    let mut statuses = translate(&store, &options).statuses;
    let hints = Hints::new(&store, Others::Named).besides(refused(&findings, &store));
    hints.complete_all(&mut statuses);
    let mut diagnoses = diagnose(&store, &options, Others::Named);
    expect_slices(&mut diagnoses, Slices::InFilesOrCluster);
    let (gateways, all) = objects(&store, &statuses);
    let all = Everything { diagnoses, ..all };
    let is_meant = |it: &Object| {
        name.is_none_or(|name| it.name == name) && namespace.is_none_or(|own| it.namespace == own)
    };
    let meant = gateways.into_iter().filter(is_meant).map(|gateway| {
        let findings = Findings {
            gateway,
            ..Findings::default()
        };
        Report::new(findings, &all)
    });
    let mut reports: Vec<Report> = meant.collect();
    if let (Some(name), []) = (name, &*reports) {
        let namespace = namespace.unwrap_or("default");
        bail!("the files have no Gateway {namespace}/{name}");
    }
    let invalid = findings
        .iter()
        .map(|it| (it.severity.into(), it.to_string()));
    let invalid: Vec<(Level, String)> = invalid.collect();
    let listed = reports.iter().flat_map(|it| it.listed.clone()).collect();
    let objects = all
        .routes
        .iter()
        .chain(&all.policies)
        .chain(&all.listener_sets);
    let namespaces: std::collections::BTreeSet<&str> = objects
        .map(|it| it.namespace.as_str())
        .filter(|it| name.is_none() && namespace.is_none_or(|own| own == *it))
        .collect();
    let others = namespaces.into_iter();
    reports.extend(others.filter_map(|it| Report::of_namespace(it, &all, &listed)));
    if reports.is_empty() {
        reports.push(Report {
            title: "no Gateway".to_owned(),
            ..Report::default()
        });
        let text = "the files have no Gateway: nothing is served";
        reports[0].add(Level::Error, text.to_owned());
    }
    for (level, text) in invalid {
        reports[0].add(level, text);
    }
    Ok(reports.into_iter().map(Report::finish).collect())
}

/// The objects with their statuses, in the form in which a cluster has them.
fn objects(store: &Store, statuses: &Statuses) -> (Vec<Object>, Everything) {
    let (mut gateways, mut all) = (Vec::new(), Everything::default());
    let mut objects: Vec<(ObjectRef, Admitted)> =
        store.objects().map(|it| (it.object_ref(), it)).collect();
    objects.sort_by(|a, b| a.0.cmp(&b.0));
    for (reference, object) in &objects {
        let spec = match object {
            Admitted::Gateway(it) => value(&it.spec),
            Admitted::ListenerSet(it) => value(&it.spec),
            Admitted::HttpRoute(it) => value(&it.spec),
            Admitted::GrpcRoute(it) => value(&it.spec),
            Admitted::TlsRoute(it) => value(&it.spec),
            Admitted::TcpRoute(it) => value(&it.spec),
            Admitted::UdpRoute(it) => value(&it.spec),
            Admitted::TrafficPolicy(it) => value(&it.spec),
            Admitted::BackendTlsPolicy(it) => value(&it.spec),
            _ => continue,
        };
        let status = statuses.get(reference).map_or(Value::Null, status);
        let metadata =
            json!({"namespace": &*reference.name.namespace, "name": &*reference.name.name});
        let json = json!({"metadata": metadata, "spec": spec, "status": status});
        let read = Object::of_json(reference.kind.name(), &json);
        match object {
            Admitted::Gateway(_) => gateways.push(read),
            Admitted::ListenerSet(_) => all.listener_sets.push(read),
            Admitted::TrafficPolicy(_) | Admitted::BackendTlsPolicy(_) => all.policies.push(read),
            _ => all.routes.push(read),
        }
    }
    (gateways, all)
}

fn status(status: &Status) -> Value {
    match status {
        Status::GatewayClass(it) => value(it),
        Status::Gateway(it) => value(it),
        Status::ListenerSet(it) => value(it),
        Status::Route(it) => value(it),
        Status::Backend(it) => value(it),
        Status::Policy(it) => value(it),
    }
}

/// Plain data with text keys, which always converts.
fn value(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}
