//! The log of the program, on stderr.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use thiserror::Error;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt};

/// Output format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines to read
    #[default]
    Text,
    /// Lines of JSON
    Json,
}

/// Why the log could not be started.
#[derive(Debug, Error)]
pub enum LogError {
    /// The filter does not parse.
    #[error(
        "--log-level: {0}; write a level such as info, or a filter such as info,controller=debug"
    )]
    Filter(#[from] ParseError),
    /// There is a log already.
    #[error(transparent)]
    Twice(#[from] TryInitError),
}

/// Starts the log.
///
/// # Errors
/// The filter does not parse, or there is a log already.
pub fn start(filter: &str, format: LogFormat) -> Result<(), LogError> {
    let filter = EnvFilter::builder().parse(filter)?;
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    Registry::default().with(filter).with(lines).try_init()?;
    Ok(())
}
