//! The program log, on stderr.

use std::io::IsTerminal as _;

use admin::LogControl;
use admin::log::trimmed_filter;
use clap::ValueEnum;
use thiserror::Error;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

/// Output format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Plain text
    #[default]
    Text,
    /// JSON Lines
    Json,
}

/// Why the log could not be started.
#[derive(Debug, Error)]
pub enum LogError {
    /// The filter does not parse.
    #[error(
        "--log-level: {0}; use a level such as info, or a filter such as info,controller=debug"
    )]
    Filter(#[from] ParseError),
    /// A log was started already.
    #[error(transparent)]
    AlreadyStarted(#[from] TryInitError),
}

/// Starts the log. Its level can be changed later.
///
/// # Errors
///
/// The filter does not parse, or a log was started already.
pub fn start(filter: &str, format: LogFormat) -> Result<LogControl, LogError> {
    let filter = EnvFilter::builder().parse(trimmed_filter(filter))?;
    let current = filter.to_string();
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    Registry::default().with(filter).with(lines).try_init()?;
    Ok(LogControl::new(handle, current))
}
