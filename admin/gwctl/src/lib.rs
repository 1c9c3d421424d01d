//! `gwctl`: queries a gateway's admin server, or a saved dump, and prints the result.
//!
//! `args` is the command line, `source` where data comes from; each command is a file that formats it.
//! It is a library so that the parsers of untrusted bytes can be fuzzed. Errors go to stderr and say
//! what to do next. Exit codes: 1 for a failure, 2 for a usage error.

mod args;
mod check;
mod client;
mod config;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod log;
mod memory;
mod output;
mod profile;
mod resource;
mod server;
mod source;
mod table;
mod tasks;
mod trace;
mod version;

use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory as _;

use self::args::{Cli, Command};
use self::source::Source;

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::from_process_args();
    match run(cli) {
        Ok(code) => code,
        // The reader of our output has closed the pipe, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    let source = Source::new(&cli.source);
    match cli.command {
        Command::Config(command) => config::run(&command, &source, &mut out)?,
        Command::Trace(command) => return trace::run(&command, &source, &mut out),
        Command::Check(command) => return check::run(&command, &mut out),
        Command::Log(command) => log::run(&command, &source, &mut out)?,
        Command::Profile(command) => profile::run(&command, &source, &mut out)?,
        Command::Tasks(command) => tasks::run(&command, &source, &mut out)?,
        Command::Memory(command) => memory::run(&command, &source, &mut out)?,
        Command::Version => version::run(&source, &mut out)?,
        Command::Completion { shell } => {
            // Into memory first: clap_complete panics on a write error.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "gwctl", &mut script);
            out.write_all(&script)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(ErrorKind::BrokenPipe)
}
