//! `gwctl check`: validates configuration files without a gateway or a cluster.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use jiff::Timestamp;
use translate::check::{Slices, check, requested_addresses};
use translate::{Environment, Options, Store};

use crate::args::CheckArgs;
use crate::files;

/// Prints findings and the conditions of each object; exits with failure where one is a problem.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<ExitCode> {
    let sources = files::read(&args.files)?;
    let reading = (args.unknown_fields, Slices::InFilesOrCluster);
    let options = |store: &Store| Options {
        now: Some(Timestamp::now()),
        ..options(store)
    };
    let verdict = check(&sources, reading, options, out)?;
    Ok(if verdict.is_failure(args.strict) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Options for a machine that owns every requested address: the machine the files are for is unknown.
pub(crate) fn options(store: &Store) -> Options {
    Options {
        environment: Environment::Machine {
            addresses: requested_addresses(store).collect(),
        },
        ..Options::machine()
    }
}
