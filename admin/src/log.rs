//! The filter of the program log, which can be replaced at run time.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use thiserror::Error;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::reload;

use crate::limits::FILTER_BYTES;
use crate::query::clipped;

/// A handle to the filter of the program log. Clones refer to the same filter.
#[derive(Clone)]
pub struct LogControl(Arc<Inner>);

struct Inner {
    replace: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
    current: Mutex<String>,
}

/// Why a filter was rejected.
#[derive(Debug, Error)]
pub enum FilterError {
    /// An empty filter, which would disable the log.
    #[error("the level is empty")]
    Empty,
    /// The filter is longer than [`FILTER_BYTES`].
    #[error("the level is {0} bytes long; the limit is {FILTER_BYTES}")]
    TooLong(usize),
    /// A word that is not a level: taken for the name of a module, it would turn off everything else.
    #[error("unknown level `{}`: use error, warn, info, debug, trace or off; for one module, MODULE=LEVEL", clipped(.0))]
    UnknownLevel(String),
    /// It contains a control character or line separator.
    #[error("the level contains {0:?}; only printable characters are allowed")]
    Unprintable(char),
    /// A directive does not parse.
    #[error("invalid directive `{}`: {why}", clipped(.directive))]
    Directive {
        /// The first directive that does not parse.
        directive: String,
        /// Error of the parser, with the position.
        why: ParseError,
    },
    /// The log has been shut down.
    #[error("cannot replace the log filter: {0}")]
    Gone(#[from] reload::Error),
}

impl LogControl {
    /// Controls the log whose filter is behind `handle`; `current` is its text.
    #[must_use]
    pub fn new<S: 'static>(handle: reload::Handle<EnvFilter, S>, current: String) -> Self {
        Self(Arc::new(Inner {
            replace: Box::new(move |filter| handle.reload(filter)),
            current: Mutex::new(current),
        }))
    }

    /// The filter in effect, in the syntax of `RUST_LOG`.
    #[must_use]
    pub fn current(&self) -> String {
        let current = self.0.current.lock();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the filter; the syntax is that of `RUST_LOG`.
    ///
    /// # Errors
    /// The text is invalid; the current filter stays.
    pub fn replace(&self, text: &str) -> Result<(), FilterError> {
        let filter = parse(text)?;
        let shown = filter.to_string();
        // Held until the filter is replaced, so that concurrent calls leave the right text.
        let mut current = self
            .0
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        (self.0.replace)(filter)?;
        *current = shown;
        Ok(())
    }
}

/// Parses a filter in the syntax of `RUST_LOG`, in which each directive names its level. All programs parse
/// filters with this, wherever they are from.
///
/// # Errors
/// The text is invalid.
pub fn parse(text: &str) -> Result<EnvFilter, FilterError> {
    if let Some(c) = text.chars().find(|&c| is_unprintable(c)) {
        return Err(FilterError::Unprintable(c));
    }
    let text = text.trim();
    if text.is_empty() {
        return Err(FilterError::Empty);
    }
    if text.len() > FILTER_BYTES {
        return Err(FilterError::TooLong(text.len()));
    }
    let trimmed = trimmed_filter(text);
    // `tracing_subscriber` takes a bare word for the name of a module, whose events it enables; it is nearly
    // always a misspelt level.
    let is_unknown = |directive: &&str| {
        let target = directive.split(['=', '[']).next().unwrap_or_default();
        let is_bare = target.len() == directive.len();
        is_bare && directive.parse::<LevelFilter>().is_err()
            || target.contains(|c: char| c == ';' || c.is_whitespace())
    };
    if let Some(unknown) = trimmed.split(',').find(is_unknown) {
        return Err(FilterError::UnknownLevel(unknown.to_owned()));
    }
    EnvFilter::builder()
        .parse(&trimmed)
        .map_err(|why| invalid_directive(&trimmed, why))
}

/// The parser does not report which directive is invalid: it is the first that does not parse alone.
fn invalid_directive(filter: &str, why: ParseError) -> FilterError {
    let mut directives = filter.split(',');
    let bad = directives.find(|directive| EnvFilter::builder().parse(directive).is_err());
    FilterError::Directive {
        directive: bad.unwrap_or(filter).to_owned(),
        why,
    }
}

/// Removes white space around directives, which the parser of `tracing_subscriber` handles wrongly: it
/// yields other module names, or panics at a character boundary.
fn trimmed_filter(filter: &str) -> String {
    filter
        .split(',')
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(",")
}

/// Control characters, and the two line separators that are not among them.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::{EnvFilter, Registry, reload};

    use super::LogControl;

    fn control() -> (LogControl, reload::Layer<EnvFilter, Registry>) {
        let (layer, handle) = reload::Layer::new(EnvFilter::new("info"));
        (LogControl::new(handle, "info".to_owned()), layer)
    }

    #[test]
    fn a_filter_replaces_the_current_one() {
        let (log, _layer) = control();
        for text in ["debug", "warn", "off", "TRACE"] {
            log.replace(text).expect(text);
            assert_eq!(log.current(), text.to_lowercase());
        }
        log.replace("info,proxy::forward=debug").expect("a filter");
        let current = log.current();
        assert!(
            current.contains("info") && current.contains("proxy::forward=debug"),
            "{current}"
        );
    }

    #[test]
    fn spaces_between_directives_are_ignored() {
        let (log, _layer) = control();
        log.replace("info, proxy::forward=debug").expect("a filter");
        assert!(log.current().contains("proxy::forward=debug"));
        log.replace("info, \u{3000}pröxy=debug").expect("a filter");
        assert!(log.current().contains("pröxy=debug"));
    }

    #[test]
    fn an_invalid_filter_is_rejected_with_its_directive() {
        let (log, _layer) = control();
        let error = |text: &str| log.replace(text).expect_err(text).to_string();
        let level = "error parsing level filter: expected one of \"off\", \"error\", \"warn\", \"info\", \
                     \"debug\", \"trace\", or a number 0-5";
        let in_list = error("info, proxy=loud,x=debug");
        assert_eq!(in_list, format!("invalid directive `proxy=loud`: {level}"));
        let (long, shown) = ("m".repeat(1000), "m".repeat(100));
        assert_eq!(
            error(&format!("{long}=loud")),
            format!("invalid directive `{shown}…`: {level}")
        );
        let unknown = format!("unknown level `{shown}…`");
        assert!(error(&long).starts_with(&unknown));
    }

    #[test]
    fn an_invalid_filter_leaves_the_current_one() {
        let (log, _layer) = control();
        for text in [
            "",
            "  ",
            "verbose",
            "loud",
            "info,loud",
            "info;proxy=debug",
            "info proxy=debug",
            "hyper_util",
            "proxy=loud",
            "info,a=b=c",
            "[",
            "info\nX",
            "info,\rproxy=debug",
            "info\t",
            "info\u{2028}X",
            "info\u{1b}[1m",
            &"a,".repeat(4096),
        ] {
            assert!(log.replace(text).is_err(), "{text}");
            assert_eq!(log.current(), "info");
        }
    }
}
