//! `check`: prints findings, each object with its conditions, the problems with their places, and a verdict.

use std::io::{self, Write};
use std::net::IpAddr;

use crate::diagnosis::{Diagnosis, Hints, Others, diagnose};
use crate::files::{Configuration, Finding, Severity, Source, UnknownFields};
use crate::gateway::api::Gateway;
use crate::gateway::status::ListenerStatus;
use crate::level::Level;
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Store;
use crate::options::Options;
use crate::status::{Condition, ConditionStatus, Reason, Status, Statuses};
use crate::translate;

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every object is valid and works as it is written, as far as files can tell.
    Good,
    /// The same, and something is probably not meant so.
    Doubtful,
    /// Something is invalid or does not work as written, or there are no objects.
    Bad,
}

impl Verdict {
    /// Whether a command is to fail; with `--strict` it fails for warnings too.
    #[must_use]
    pub fn is_failure(self, strict: bool) -> bool {
        match self {
            Self::Good => false,
            Self::Doubtful => strict,
            Self::Bad => true,
        }
    }
}

/// Where the EndpointSlices of the Services are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slices {
    /// In the files.
    InFiles,
    /// In the files, or made by the cluster that the files are for.
    InFilesOrCluster,
}

/// Writes each object with its conditions, then what is wrong, with its place. `options` is called once the
/// objects are known.
///
/// # Errors
///
/// Writing to `out` failed.
pub fn check(
    sources: &[Source],
    (unknown_fields, slices): (UnknownFields, Slices),
    options: impl FnOnce(&Store) -> Options,
    out: &mut dyn Write,
) -> io::Result<Verdict> {
    let mut configuration = Configuration::new(unknown_fields);
    let findings = configuration.reload(sources).findings;
    let store: Store = configuration.in_force().collect();
    let options = options(&store);
    let mut translation = translate(&store, &options);
    let hints = Hints::new(&store, Others::Named).besides(refused(&findings, &store));
    hints.complete_all(&mut translation.statuses);
    write_statuses(&translation.statuses, out)?;
    let mut problems: Vec<(Level, String)> = findings.iter().map(of_finding).collect();
    problems.extend(of_conditions(&translation.statuses, &configuration));
    let mut diagnoses = diagnose(&store, &options, Others::Named);
    expect_slices(&mut diagnoses, slices);
    problems.extend(diagnoses.iter().map(|it| of_diagnosis(it, &configuration)));
    if sources.is_empty() || store == Store::default() && findings.is_empty() {
        let text = "there are no objects: name files of Gateway API YAML, or folders with .yaml, .yml or .json \
                    files in them";
        problems.push((Level::Error, text.to_owned()));
    }
    for (level, text) in &problems {
        writeln!(out, "{level}: {text}")?;
    }
    let model = &translation.model;
    writeln!(
        out,
        "{} and {} would be served{}",
        counted(model.listeners.len(), "listener"),
        counted(model.routes.len(), "rule"),
        summary(&problems)
    )?;
    Ok(match problems.iter().map(|(level, _)| *level).max() {
        Some(Level::Error) => Verdict::Bad,
        Some(Level::Warning) => Verdict::Doubtful,
        Some(Level::Note) | None => Verdict::Good,
    })
}

/// The objects that are written, and of which nothing is in force.
#[must_use]
pub fn refused(findings: &[Finding], store: &Store) -> Vec<ObjectRef> {
    let objects = findings.iter().filter(|it| it.severity == Severity::Error);
    let objects = objects.filter_map(|it| it.object.clone());
    objects.filter(|it| !store.contains(it)).collect()
}

/// Of a Service whose EndpointSlices the cluster may make it is no mistake to have none.
pub fn expect_slices(diagnoses: &mut [Diagnosis], slices: Slices) {
    for diagnosis in diagnoses {
        if slices == Slices::InFilesOrCluster && diagnosis.reason == Reason::NoEndpointSlice {
            diagnosis.level = Level::Note;
        }
    }
}

/// `; 1 error, 2 warnings`, or nothing.
fn summary(problems: &[(Level, String)]) -> String {
    let count = |level| problems.iter().filter(|it| it.0 == level).count();
    let levels = [
        (count(Level::Error), "error"),
        (count(Level::Warning), "warning"),
    ];
    let some = levels.into_iter().filter(|(count, _)| *count > 0);
    let some: Vec<String> = some.map(|(count, name)| counted(count, name)).collect();
    if some.is_empty() {
        return String::new();
    }
    format!("; {}", some.join(", "))
}

fn of_finding(finding: &Finding) -> (Level, String) {
    (finding.severity.into(), finding.to_string())
}

fn of_conditions(statuses: &Statuses, configuration: &Configuration) -> Vec<(Level, String)> {
    let problems = statuses.problem_conditions().map(|problem| {
        let text = at(configuration, &problem.object, problem.field);
        (problem.level(), format!("{text}{problem}"))
    });
    problems.collect()
}

fn of_diagnosis(diagnosis: &Diagnosis, configuration: &Configuration) -> (Level, String) {
    let text = at(configuration, &diagnosis.object, Some(&diagnosis.field));
    (diagnosis.level, format!("{text}{diagnosis}"))
}

/// `file:line: `, where the place is known.
fn at(configuration: &Configuration, object: &ObjectRef, field: Option<&str>) -> String {
    let place = configuration.locate(object, field);
    place.map_or_else(String::new, |(file, line)| format!("{file}:{line}: "))
}

/// The addresses that the Gateways of a store request.
pub fn requested_addresses(store: &Store) -> impl Iterator<Item = IpAddr> {
    let gateways = store.gateways.values();
    gateways.flat_map(|gateway| addresses_of(gateway))
}

/// The addresses that a Gateway requests.
pub fn addresses_of(gateway: &Gateway) -> impl Iterator<Item = IpAddr> {
    let spec_addresses = gateway.spec.addresses.iter();
    spec_addresses.filter_map(|address| address.value.parse().ok())
}

fn write_statuses(statuses: &Statuses, out: &mut dyn Write) -> io::Result<()> {
    for (object, status) in statuses.iter() {
        writeln!(out, "{object}")?;
        match status {
            Status::GatewayClass(_) => {}
            Status::Gateway(status) => {
                write_conditions("  ", &status.conditions, out)?;
                write_listeners(&status.listeners, out)?;
            }
            Status::ListenerSet(status) => {
                write_conditions("  ", &status.conditions, out)?;
                write_listeners(&status.listeners, out)?;
            }
            Status::Route(status) => {
                for parent in &status.parents {
                    writeln!(out, "  parent {}", parent.parent_ref)?;
                    write_conditions("    ", &parent.conditions, out)?;
                }
            }
            Status::Backend(status) => write_conditions("  ", &status.conditions, out)?,
            Status::Policy(status) => {
                for ancestor in &status.ancestors {
                    let what = Status::role_of_ancestors(object.kind);
                    writeln!(out, "  {what} {}", ancestor.ancestor_ref)?;
                    write_conditions("    ", &ancestor.conditions, out)?;
                }
            }
        }
    }
    Ok(())
}

fn write_listeners(listeners: &[ListenerStatus], out: &mut dyn Write) -> io::Result<()> {
    for listener in listeners {
        let routes = listener.attached_routes;
        writeln!(out, "  listener {}, routes: {routes}", listener.name)?;
        write_conditions("    ", &listener.conditions, out)?;
    }
    Ok(())
}

fn write_conditions(indent: &str, conditions: &[Condition], out: &mut dyn Write) -> io::Result<()> {
    for condition in conditions {
        let status = match condition.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        let Condition { kind, reason, .. } = condition;
        let mark = if condition.is_problem() { "! " } else { "" };
        writeln!(
            out,
            "{indent}{mark}{kind}={status} ({reason}): {}",
            condition.message
        )?;
    }
    Ok(())
}

/// A number with a noun: `1 rule`, `2 rules`.
fn counted(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use super::{Slices, Verdict, check};
    use crate::files::{Source, UnknownFields};
    use crate::options::Options;

    const VALID: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  gatewayClassName: gateway
  listeners: [{name: http, port: 8080, protocol: HTTP}]
";

    const INVALID: &str = "\
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: app}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{name: gone, port: 80}]}]
";

    fn checked(text: &str) -> (Verdict, String) {
        let source = Source::from_bytes("a.yaml", text.as_bytes().to_vec());
        let mut out = Vec::new();
        let verdict = check(
            &[source],
            (UnknownFields::Refuse, Slices::InFiles),
            |_| Options::machine(),
            &mut out,
        );
        let verdict = verdict.expect("a vector takes all");
        (verdict, String::from_utf8(out).expect("it is text"))
    }

    #[test]
    fn valid_files_are_reported_by_object() {
        let (verdict, text) = checked(VALID);
        assert_eq!(verdict, Verdict::Good, "{text}");
        assert!(
            text.starts_with("Gateway default/web\n  Accepted=True (Accepted)"),
            "{text}"
        );
        assert!(text.contains("\n  listener http, routes: 0\n"), "{text}");
    }

    #[test]
    fn unresolved_references_are_marked_and_fail_the_check() {
        let (verdict, text) = checked(&(VALID.to_owned() + INVALID));
        assert_eq!(verdict, Verdict::Bad, "{text}");
        let marked = "\n    ! ResolvedRefs=False (BackendNotFound)";
        assert!(text.contains(marked), "{text}");
        let placed = "\nerror: a.yaml:13: HTTPRoute default/app (parent Gateway web) spec.rules[0].backendRefs[0]: \
                      ResolvedRefs/BackendNotFound: ";
        assert!(text.contains(placed), "{text}");
        assert!(text.ends_with("served; 1 error\n"), "{text}");
    }

    #[test]
    fn parents_of_a_route_are_told_apart() {
        let parents = "[{name: all}, {name: web, port: 8080}, {name: web, port: 8081}, \
                       {name: a, sectionName: http}, {name: b, sectionName: http, port: 8081}, \
                       {namespace: other, name: web}]";
        let route = INVALID.replace("[{name: web}]", parents);
        let (_, text) = checked(&(VALID.to_owned() + &route));
        let parents = text.lines().filter(|line| line.starts_with("  parent "));
        let expected = [
            "  parent Gateway all",
            "  parent Gateway web port 8080",
            "  parent Gateway web port 8081",
            "  parent Gateway a section http",
            "  parent Gateway b section http port 8081",
            "  parent Gateway other/web",
        ];
        assert_eq!(parents.collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn rejected_objects_are_reported_with_their_location() {
        let (verdict, text) = checked(&VALID.replace("8080", "http"));
        assert_eq!(verdict, Verdict::Bad, "{text}");
        assert!(text.contains("a.yaml:6: Gateway default/web"), "{text}");
    }

    #[test]
    fn an_unknown_field_rejects_its_object_unless_unknown_fields_only_warn() {
        let typo = VALID.replace("spec:", "spec:\n  listenrs: []");
        let (verdict, text) = checked(&typo);
        assert_eq!(verdict, Verdict::Bad, "{text}");
        let refused = "error: a.yaml:5: Gateway default/web spec.listenrs: unknown field \
                       (did you mean `listeners`?): correct or remove it\n0 listeners";
        assert!(text.contains(refused), "{text}");

        let source = Source::new("a.yaml", typo);
        let mut out = Vec::new();
        let options = |_: &_| Options::machine();
        let verdict = check(
            &[source],
            (UnknownFields::Warn, Slices::InFiles),
            options,
            &mut out,
        );
        let text = String::from_utf8(out).expect("it is text");
        assert_eq!(
            verdict.expect("a vector takes all"),
            Verdict::Doubtful,
            "{text}"
        );
        assert!(text.contains("warning: a.yaml:5:"), "{text}");
    }

    #[test]
    fn files_without_objects_fail_the_check() {
        let mut out = Vec::new();
        let verdict = check(
            &[],
            (UnknownFields::Refuse, Slices::InFiles),
            |_| Options::machine(),
            &mut out,
        );
        assert_eq!(verdict.expect("a vector takes all"), Verdict::Bad);
        let text = String::from_utf8(out).expect("it is text");
        assert!(text.starts_with("error: there are no objects"), "{text}");
    }
}
