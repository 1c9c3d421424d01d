//! `gwctl check`: what a gateway would make of files, without one and without a cluster.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use translate::check::{Verdict, asked_addresses, check};
use translate::{Options, Place, Store};

use crate::args::CheckArgs;
use crate::files;

/// Prints findings and each object's conditions; fails where something is not as it should be.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<ExitCode> {
    Ok(match check(&files::read(&args.files)?, options, out)? {
        Verdict::Good => ExitCode::SUCCESS,
        Verdict::Bad => ExitCode::FAILURE,
    })
}

/// Of a machine that has every address it is asked for: which one it will be is not known here.
pub(crate) fn options(store: &Store) -> Options {
    Options {
        place: Place::Machine {
            addresses: asked_addresses(store).collect(),
        },
        ..Options::machine()
    }
}
