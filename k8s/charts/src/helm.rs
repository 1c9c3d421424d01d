//! The program `helm`.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use crate::object::{Object, objects};
use crate::path;

/// The program `helm`, by path or name.
#[derive(Debug, Clone)]
pub struct Helm(OsString);

/// The error message of Helm.
#[derive(Debug)]
pub struct HelmError(pub String);

impl Helm {
    /// `$HELM`, or `helm` of the search path. Without either, reports on stderr that a test is
    /// skipped; CI sets `HELM`, so that none is.
    ///
    /// # Panics
    ///
    /// `$HELM` cannot be run.
    #[must_use]
    pub fn find() -> Option<Self> {
        let named = env::var_os("HELM");
        let helm = Self(named.clone().unwrap_or_else(|| "helm".into()));
        let version = helm.run(&["version", "--short"], "");
        if let Err(HelmError(why)) = version {
            assert!(named.is_none(), "cannot run $HELM: {why}");
            let thread = std::thread::current();
            let test = thread.name().unwrap_or_default();
            // Past the test harness, which keeps what passing tests print.
            let _ = writeln!(
                io::stderr(),
                "SKIPPED {test}: helm is missing; set HELM to it, for example HELM=$(e2e build helm)/helm"
            );
            return None;
        }
        Some(helm)
    }

    /// The output of `helm template`. The release is named `gateway`, as its chart, and is in the
    /// namespace `gateway-system`.
    ///
    /// # Errors
    /// Helm refuses the values.
    pub fn template(&self, chart: &str, values: &str) -> Result<String, HelmError> {
        let folder = path(chart);
        let folder = folder.to_string_lossy();
        let release = ["template", chart, &folder, "--namespace", "gateway-system"];
        self.run(&[&release[..], &["--values", "-"]].concat(), values)
    }

    /// The objects that `helm template` renders.
    ///
    /// # Errors
    /// Helm refuses the values.
    pub fn objects(&self, chart: &str, values: &str) -> Result<Vec<Object>, HelmError> {
        self.template(chart, values).map(|text| objects(&text))
    }

    /// `helm lint --strict`.
    ///
    /// # Errors
    /// Helm has found something.
    pub fn lint(&self, chart: &str, values: &str) -> Result<String, HelmError> {
        let folder = path(chart);
        let folder = folder.to_string_lossy();
        self.run(&["lint", "--strict", &folder, "--values", "-"], values)
    }

    /// The notes that are shown after an installation.
    ///
    /// # Errors
    ///
    /// Helm rejects the values.
    pub fn notes(&self, chart: &str, values: &str) -> Result<String, HelmError> {
        let folder = path(chart);
        let folder = folder.to_string_lossy();
        let release = ["install", chart, &folder, "--namespace", "gateway-system"];
        let client = ["--dry-run=client", "--values", "-"];
        let text = self.run(&[&release[..], &client].concat(), values)?;
        let notes = text.split_once("\nNOTES:\n").map(|(_, notes)| notes);
        Ok(notes.unwrap_or_default().to_owned())
    }

    fn run(&self, arguments: &[&str], input: &str) -> Result<String, HelmError> {
        let failed = |error: io::Error| HelmError(format!("{}: {error}", self.0.display()));
        let mut child = Command::new(&self.0)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A helm that reads none closes it.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        // `helm lint` prints its findings on stdout.
        let complaint = String::from_utf8_lossy(&output.stderr);
        Err(HelmError(format!("{text}{complaint}")))
    }
}
