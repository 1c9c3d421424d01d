//! `gateway check`: what the proxy would make of files, without doing it.

use std::io::{self, Write};
use std::path::PathBuf;

use translate::admit::{self, Admitted, Severity};
use translate::status::{Condition, ConditionStatus};
use translate::{Options, Place, Statuses, Store};

use super::files::Files;
use super::origin;

/// What a check comes to: the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is as it should be.
    Good,
    /// Something is refused, or does not work as written.
    Bad,
}

/// Reads files and folders, and writes what there is to say: findings first, then each object with
/// its conditions.
///
/// # Errors
/// `out` takes no more.
pub fn check(paths: Vec<PathBuf>, port_offset: u16, out: &mut impl Write) -> io::Result<Verdict> {
    let sources = Files::new(paths).read();
    let Admitted { objects, findings } = admit::admit(&sources);
    for finding in &findings {
        writeln!(out, "{}: {finding}", severity(finding.severity))?;
    }
    let store: Store = objects.into_iter().map(|(object, _)| object).collect();
    let options = Options {
        port_offset,
        place: Place::Machine {
            addresses: origin::local_addresses(&store),
        },
        ..Options::machine()
    };
    let translation = translate::translate(&store, &options);
    write_statuses(&translation.statuses, out)?;
    let model = &translation.model;
    writeln!(
        out,
        "{} listeners and {} rules would be served",
        model.listeners.len(),
        model.routes.len()
    )?;
    let refused = findings
        .iter()
        .any(|finding| finding.severity == Severity::Error);
    let unhappy = translation.statuses.unhappy().next().is_some();
    Ok(if sources.is_empty() || refused || unhappy {
        Verdict::Bad
    } else {
        Verdict::Good
    })
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn write_statuses(statuses: &Statuses, out: &mut impl Write) -> io::Result<()> {
    for (name, status) in &statuses.gateways {
        writeln!(out, "Gateway {name}")?;
        write_conditions("  ", &status.conditions, out)?;
        for listener in &status.listeners {
            let routes = listener.attached_routes;
            writeln!(out, "  listener {}, routes: {routes}", listener.name)?;
            write_conditions("    ", &listener.conditions, out)?;
        }
    }
    for (name, status) in &statuses.http_routes {
        writeln!(out, "HTTPRoute {name}")?;
        for parent in &status.parents {
            let reference = &parent.parent_ref;
            let section = reference.section_name.as_deref();
            let section = section.map_or_else(String::new, |name| format!(", section {name}"));
            writeln!(
                out,
                "  parent {} {}{section}",
                reference.kind, reference.name
            )?;
            write_conditions("    ", &parent.conditions, out)?;
        }
    }
    for (name, status) in &statuses.backends {
        writeln!(out, "Backend {name}")?;
        write_conditions("  ", &status.conditions, out)?;
    }
    for (name, status) in &statuses.traffic_policies {
        writeln!(out, "TrafficPolicy {name}")?;
        for ancestor in &status.ancestors {
            writeln!(out, "  target {}", ancestor.ancestor_ref)?;
            write_conditions("    ", &ancestor.conditions, out)?;
        }
    }
    Ok(())
}

fn write_conditions(
    indent: &str,
    conditions: &[Condition],
    out: &mut impl Write,
) -> io::Result<()> {
    for condition in conditions {
        let status = match condition.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        let Condition { kind, reason, .. } = condition;
        let mark = if condition.is_unhappy() { "! " } else { "" };
        writeln!(
            out,
            "{indent}{mark}{kind}={status} ({reason}): {}",
            condition.message
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Verdict, check};

    const GOOD: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  gatewayClassName: gateway
  listeners: [{name: http, port: 8080, protocol: HTTP}]
";

    const BAD: &str = "\
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: app}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{name: gone, port: 80}]}]
";

    fn checked(text: &str) -> (Verdict, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.yaml");
        fs::write(&path, text).expect("a file");
        let mut out = Vec::new();
        let verdict = check(vec![path], 0, &mut out).expect("a vector takes all");
        (verdict, String::from_utf8(out).expect("it is text"))
    }

    #[test]
    fn good_files_are_told_object_by_object() {
        let (verdict, text) = checked(GOOD);
        assert_eq!(verdict, Verdict::Good, "{text}");
        assert!(
            text.starts_with("Gateway default/web\n  Accepted=True (Accepted)"),
            "{text}"
        );
        assert!(text.contains("\n  listener http, routes: 0\n"), "{text}");
    }

    #[test]
    fn what_does_not_resolve_is_marked_and_bad() {
        let (verdict, text) = checked(&(GOOD.to_owned() + BAD));
        assert_eq!(verdict, Verdict::Bad, "{text}");
        let marked = "\n    ! ResolvedRefs=False (BackendNotFound)";
        assert!(text.contains(marked), "{text}");
    }

    #[test]
    fn what_is_refused_is_told_with_its_place() {
        let (verdict, text) = checked(&GOOD.replace("8080", "http"));
        assert_eq!(verdict, Verdict::Bad, "{text}");
        assert!(text.contains("a.yaml:6: Gateway default/web"), "{text}");
    }
}
