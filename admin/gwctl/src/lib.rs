//! `gwctl`: asks a gateway's admin server, or a saved dump, and prints what an operator wants to know.
//!
//! `args` is what the user typed, `source` where answers come from, and each command a file that
//! makes text of them; a library, so that what reads foreign bytes can be fuzzed. Errors go to stderr and say what to do next; exit codes: 1 failure, 2 usage.

mod args;
mod check;
mod client;
mod config;
mod files;
mod log;
mod memory;
mod output;
mod profile;
#[doc(hidden)]
pub mod reading;
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

/// Does what the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::typed();
    match run(cli) {
        Ok(code) => code,
        // Whoever reads the output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    let source = Source::of(&cli.from);
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
            // Into memory first: it panics where its output takes no more.
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
