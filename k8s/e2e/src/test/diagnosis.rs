//! Diagnosis of a failed test.

use super::control_plane;
use super::scope::Scope;
use crate::cluster::Cluster;
use crate::process::last_lines;

/// Lines of each log.
const LINES: usize = 15;

/// Events, states of pods, last log lines of pods that are not ready, and where to find the rest.
pub(super) async fn of_scope(scope: &Scope) -> String {
    let mut text = String::new();
    let pods = kubectl_output(scope, &["get", "pods", "-o", "wide"]).await;
    section(&mut text, "pods", &pods);
    let events = kubectl_output(scope, &["get", "events", "--sort-by=.lastTimestamp"]).await;
    section(&mut text, "events", &last_lines(&events, 2 * LINES));
    let not_ready = "jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].ready}{\"\\n\"}{end}";
    for line in kubectl_output(scope, &["get", "pods", "-o", not_ready])
        .await
        .lines()
    {
        let Some((name, ready)) = line.split_once(' ') else {
            continue;
        };
        let tail = format!("--tail={LINES}");
        let mut words = vec!["logs", name, "--all-containers", &tail];
        let log = kubectl_output(scope, &words).await;
        section(
            &mut text,
            &format!("log of pod {name} (ready: {ready})"),
            &log,
        );
        if ready.contains("false") {
            words.push("--previous");
            let log = kubectl_output(scope, &words).await;
            section(
                &mut text,
                &format!("log of pod {name} before its restart"),
                &log,
            );
        }
    }
    let controller = scope.within(control_plane::NAMESPACE);
    let tail = format!("--tail={}", 2 * LINES);
    let words = [
        "logs",
        "--selector=app.kubernetes.io/name=controller",
        &tail,
    ];
    // The controller may not be installed.
    if let Ok(log) = controller.kubectl(&words, "").await {
        section(&mut text, "log of the controller", &log);
    }
    if let Ok(cluster) = scope.ours() {
        of_cluster(&mut text, cluster);
    }
    text
}

fn of_cluster(text: &mut String, cluster: &Cluster) {
    for ended in cluster.ended() {
        section(text, "component", &ended);
    }
    section(
        text,
        "logs of components",
        &cluster.logs_folder().display().to_string(),
    );
}

async fn kubectl_output(scope: &Scope, words: &[&str]) -> String {
    match scope.kubectl(words, "").await {
        Ok(text) => text,
        Err(error) => format!("{error:#}"),
    }
}

fn section(text: &mut String, title: &str, body: &str) {
    if !body.trim().is_empty() {
        text.extend(["--- ", title, "\n", body.trim_end(), "\n"]);
    }
}
