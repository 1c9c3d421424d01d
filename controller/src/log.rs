//! The program log, on stderr.

use std::io::IsTerminal as _;

use admin::LogControl;
use admin::log::{self, FilterError};
use clap::ValueEnum;
use thiserror::Error;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{Layer as _, Registry, fmt, reload};

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
    Filter(#[from] FilterError),
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
    let filter = log::parse(filter)?;
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use admin::log::parse;
    use regex_automata::meta::Regex;
    use serde_json::Value;

    use super::*;

    const VALID: [&str; 8] = [
        "info",
        "OFF",
        "0",
        "info,controller=debug",
        "info, proxy::forward=trace , h2=off",
        "proxy=debug",
        "proxy[request{id=1}]=debug",
        "Trace",
    ];
    /// Each of them would turn off the log, or more of it than was meant.
    const INVALID: [&str; 8] = [
        "loud",
        "infos",
        "info,loud",
        "proxy",
        "hyper_util",
        "proxy=loud",
        "9",
        "info;proxy=debug",
    ];

    fn file(path: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn at(document: &Value, pointer: &str) -> Regex {
        let pattern = document.pointer(pointer).and_then(Value::as_str);
        Regex::new(pattern.expect("a pattern")).expect("it is valid")
    }

    #[test]
    fn a_misspelt_level_is_refused_on_the_command_line_in_parameters_and_in_values() {
        let values = serde_json::from_str(&file("k8s/charts/gateway/values.schema.json"));
        let values = at(
            &values.expect("JSON"),
            "/properties/controller/properties/logLevel/pattern",
        );
        let crd =
            serde_saphyr::from_str(&file("k8s/crds/gateway-system.io_gatewayparameters.yaml"));
        let level = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/logging/properties/level/pattern";
        let crd = at(&crd.expect("YAML"), level);
        for (filters, expected) in [(VALID, true), (INVALID, false)] {
            for filter in filters {
                assert_eq!(parse(filter).is_ok(), expected, "{filter}");
                assert_eq!(values.is_match(filter), expected, "values: {filter}");
                assert_eq!(crd.is_match(filter), expected, "parameters: {filter}");
            }
        }
    }

    #[test]
    fn the_error_says_what_to_use() {
        let Err(error) = start("loud", LogFormat::Text) else {
            panic!("it is no level");
        };
        let error = error.to_string();
        let expected = "--log-level: unknown level `loud`: use error, warn, info";
        assert!(error.starts_with(expected), "{error}");
    }
}
