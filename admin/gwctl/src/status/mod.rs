//! `gwctl status`: whether Gateways work, and why not.
//!
//! `cluster` reads what the controller has written and what the objects themselves show, `proxy` queries the
//! proxies, `dump` reads one proxy or a saved dump, and `manifests` evaluates files; `report` evaluates all of
//! them, and `print` writes the result as text.

mod cluster;
mod dump;
mod known;
mod manifests;
mod objects;
mod print;
mod proxy;
mod report;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};

use self::report::Report;
use crate::args::{Output, StatusArgs};
use crate::output;
use crate::resource::{Resource, ResourceKind};
use crate::source::Source;

/// Prints the status of a Gateway, or of all in the namespace and of what else is in it; exits with failure if
/// something does not work as it is written, or could not be read.
///
/// # Errors
///
/// There is no such Gateway, or nothing can be read.
pub(crate) fn run(args: &StatusArgs, source: &Source, out: &mut dyn Write) -> Result<ExitCode> {
    let name = args.resource.as_ref().map(name).transpose()?;
    let reports = if !args.config.is_empty() {
        manifests::reports(&args.config, name, source.namespace())?
    } else if source.is_cluster() {
        cluster::reports(source, name)?
    } else {
        dump::reports(source, args.resource.as_ref())?
    };
    match args.output {
        Output::Json => output::json(&reports, out)?,
        Output::Yaml => output::yaml(&reports, out)?,
        Output::Table => {
            for (index, report) in reports.iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                print::write(report, out)?;
            }
        }
    }
    Ok(exit_code(&reports, args.strict))
}

fn exit_code(reports: &[Report], strict: bool) -> ExitCode {
    if reports.iter().any(|it| it.is_failure(strict)) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn name(resource: &Resource) -> Result<&str> {
    if resource.kind != ResourceKind::Gateway {
        bail!("only a Gateway has a status; name one as [gateway/]NAME");
    }
    Ok(&resource.name)
}
