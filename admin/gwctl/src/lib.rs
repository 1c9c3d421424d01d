//! `gwctl`: queries the gateways of a cluster, one admin server, or a saved dump, and prints the result.
//!
//! `args` is the command line, `source` where data comes from, `cluster` how pods are found and reached;
//! each command is a file that formats it.
//! It is a library so that the parsers of untrusted bytes can be fuzzed. Errors go to stderr and say
//! what to do next. Exit codes: 1 for a failure, 2 for a usage error.

mod args;
mod check;
mod client;
mod cluster;
mod complete;
mod config;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod idp;
mod log;
mod memory;
mod output;
mod page;
mod pods;
mod profile;
mod resource;
mod runtime;
mod server;
mod source;
mod status;
mod table;
mod tasks;
mod tls;
mod trace;
mod version;

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::CompleteEnv;

use self::args::{Cli, Command};
use self::source::Source;

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    // Ends the process if a shell requests completions.
    CompleteEnv::with_factory(Cli::command).complete();
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
    if let Command::Idp(command) = &cli.command {
        return idp::run(command, &cli.source, &mut out);
    }
    let source = Source::new(&cli.source)?;
    match cli.command {
        Command::Status(command) => return status::run(&command, &source, &mut out),
        Command::Config(command) => return config::run(&command, &source, &mut out),
        Command::Trace(command) => return trace::run(&command, &source, &mut out),
        Command::Check(command) => return check::run(&command, &mut out),
        Command::Log(command) => log::run(&command, &source, &mut out)?,
        Command::Profile(command) => profile::run(&command, &source, &mut out)?,
        Command::Tasks(command) => tasks::run(&command, &source, &mut out)?,
        Command::Memory(command) => memory::run(&command, &source, &mut out)?,
        Command::Idp(_) => unreachable!("it was run above"),
        Command::Page(command) => page::run(&command, &source, &mut out)?,
        Command::Version(command) => version::run(&command, &source, &mut out)?,
        Command::Completion { shell } => complete::write_script(shell, &mut out)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(ErrorKind::BrokenPipe)
}
