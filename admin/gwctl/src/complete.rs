//! Shell completion, including names from the cluster.
//!
//! The shell runs `gwctl` with the words so far; only options that select the cluster and the
//! namespace matter here. Errors result in no completions: there is nowhere to report them.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap_complete::Shell;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::Shells;

use crate::args::SourceArgs;
use crate::cluster::{self, Cluster};
use crate::resource::ResourceKind;
use crate::runtime::Blocking;

/// Writes the script that a shell reads to complete command lines of `gwctl`.
///
/// # Errors
/// Writing failed.
pub(crate) fn write_script(shell: Shell, out: &mut dyn Write) -> Result<()> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name).context("an unknown shell")?;
    // Into memory first, since a broken pipe is not an error.
    let mut script = Vec::new();
    completer.write_registration("COMPLETE", "gwctl", "gwctl", "gwctl", &mut script)?;
    out.write_all(&script)?;
    Ok(())
}

/// Gateways, or after `pod/` and the like, objects of that type.
pub(crate) fn resources(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let (kind, prefix) = match current.split_once('/') {
        Some((kind, _)) => (kind.parse().ok(), format!("{kind}/")),
        None => (Some(ResourceKind::Gateway), String::new()),
    };
    let Some(kind) = kind else {
        return Vec::new();
    };
    let names = in_cluster(|cluster| cluster.names(kind));
    let mut candidates: Vec<String> = names.into_iter().map(|it| prefix.clone() + &it).collect();
    if prefix.is_empty() {
        let types = ResourceKind::ALL.iter().map(|(_, names)| names[0]);
        candidates.extend(types.map(|it| format!("{it}/")));
    }
    matching(candidates, &current)
}

pub(crate) fn pods(current: &OsStr) -> Vec<CompletionCandidate> {
    let names = in_cluster(|cluster| cluster.names(ResourceKind::Pod));
    matching(names, &current.to_string_lossy())
}

pub(crate) fn namespaces(current: &OsStr) -> Vec<CompletionCandidate> {
    matching(in_cluster(Cluster::namespaces), &current.to_string_lossy())
}

/// Contexts of the kubeconfig.
pub(crate) fn contexts(current: &OsStr) -> Vec<CompletionCandidate> {
    let words = words(std::env::args_os());
    let contexts = cluster::contexts(words.kubeconfig.as_deref()).unwrap_or_default();
    matching(contexts, &current.to_string_lossy())
}

fn in_cluster(names: impl FnOnce(&Cluster) -> Result<Vec<String>>) -> Vec<String> {
    let args = words(std::env::args_os());
    let found = Blocking::new().and_then(|runtime| names(&Cluster::new(&args, &runtime)?));
    found.unwrap_or_default()
}

fn matching(names: Vec<String>, prefix: &str) -> Vec<CompletionCandidate> {
    let names = names.into_iter().filter(|it| it.starts_with(prefix));
    names.map(CompletionCandidate::new).collect()
}

/// The options so far that select the source.
fn words(words: impl IntoIterator<Item = OsString>) -> SourceArgs {
    let mut args = SourceArgs {
        // The user waits for it between two keys.
        timeout: Some(TIMEOUT),
        ..SourceArgs::default()
    };
    let words = words
        .into_iter()
        .map(|it| it.to_string_lossy().into_owned());
    let mut words = words.flat_map(|word| match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') => {
            vec![option.to_owned(), value.to_owned()]
        }
        _ => vec![word],
    });
    while let Some(word) = words.next() {
        match word.as_str() {
            "-n" | "--namespace" => args.namespace = words.next(),
            "--context" => args.context = words.next(),
            "--kubeconfig" => args.kubeconfig = words.next().map(PathBuf::from),
            _ => {}
        }
    }
    args
}

/// Timeout of a request for names: 3 s.
const TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::words;

    #[test]
    fn completion_uses_the_cluster_options_of_the_command_line() {
        let line = "gwctl -- gwctl config all -n web --context=staging --kubeconfig a gateway/";
        let args = words(line.split(' ').map(Into::into));
        assert_eq!(args.namespace.as_deref(), Some("web"));
        assert_eq!(args.context.as_deref(), Some("staging"));
        assert_eq!(args.kubeconfig.as_deref(), Some(Path::new("a")));
    }
}
