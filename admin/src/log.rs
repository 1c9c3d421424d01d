//! The filter of the program's own log, which can be replaced while it runs.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::reload;

use crate::limits::FILTER_BYTES;
use crate::query::clipped;

/// The filter of the log. Clones are the same one.
#[derive(Clone)]
pub struct LogControl(Arc<Inner>);

struct Inner {
    replace: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
    current: Mutex<String>,
}

/// Why a text is no filter, or was not put in force.
#[derive(Debug, Error)]
pub enum FilterError {
    /// It says nothing.
    #[error("the level is empty")]
    Empty,
    /// It is longer than any filter has reason to be.
    #[error("the level has {0} bytes, {FILTER_BYTES} at most")]
    TooLong(usize),
    /// It is a single word, and no level.
    #[error("`{}` is no level", clipped(.0))]
    NoLevel(String),
    /// Where it is shown, it would look like something else.
    #[error("the level has {0:?} in it, where only printable characters may be")]
    Unprintable(char),
    /// One of its directives does not parse.
    #[error("`{}`: {why}", clipped(.directive))]
    Directive {
        /// The directive.
        directive: String,
        /// Why.
        why: ParseError,
    },
    /// The log is gone.
    #[error("the log takes no filter any more: {0}")]
    Gone(#[from] reload::Error),
}

impl LogControl {
    /// Controls the log whose filter, `current`, is behind `handle`.
    #[must_use]
    pub fn new<S: 'static>(handle: reload::Handle<EnvFilter, S>, current: String) -> Self {
        Self(Arc::new(Inner {
            replace: Box::new(move |filter| handle.reload(filter)),
            current: Mutex::new(current),
        }))
    }

    /// The filter in force.
    #[must_use]
    pub fn current(&self) -> String {
        let current = self.0.current.lock();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the filter, by the syntax of `RUST_LOG`.
    ///
    /// # Errors
    /// The text is no filter; the one in force stays.
    pub fn replace(&self, text: &str) -> Result<(), FilterError> {
        let filter = parse(text)?;
        let shown = filter.to_string();
        // Held for the whole, so that what is shown is what is in force.
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

pub(crate) fn parse(text: &str) -> Result<EnvFilter, FilterError> {
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
    // A bare word would be the name of a module, whose every event is logged: nearly always, it is
    // a level misspelt.
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_word && text.parse::<tracing::level_filters::LevelFilter>().is_err() {
        return Err(FilterError::NoLevel(text.to_owned()));
    }
    let trimmed = trimmed_filter(text);
    EnvFilter::builder()
        .parse(&trimmed)
        .map_err(|why| bad_directive(&trimmed, why))
}

/// The parser does not say which directive it stumbled over: the first that does not parse by itself.
fn bad_directive(filter: &str, why: ParseError) -> FilterError {
    let mut directives = filter.split(',');
    let bad = directives.find(|directive| EnvFilter::builder().parse(directive).is_err());
    FilterError::Directive {
        directive: bad.unwrap_or(filter).to_owned(),
        why,
    }
}

/// A filter without white space around its directives. Their parser looks behind it and cuts from
/// before it, which names other modules, or panics within a character.
#[must_use]
pub fn trimmed_filter(filter: &str) -> String {
    filter
        .split(',')
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(",")
}

/// Control characters, and the two line separators that are none.
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
    fn a_filter_replaces_the_one_in_force() {
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
    fn spaces_between_directives_change_nothing() {
        let (log, _layer) = control();
        log.replace("info, proxy::forward=debug").expect("a filter");
        assert!(log.current().contains("proxy::forward=debug"));
        log.replace("info, \u{3000}pröxy=debug").expect("a filter");
        assert!(log.current().contains("pröxy=debug"));
    }

    #[test]
    fn a_bad_filter_is_refused_with_the_directive_that_is_wrong() {
        let (log, _layer) = control();
        let refused = |text: &str| log.replace(text).expect_err(text).to_string();
        let level = "error parsing level filter: expected one of \"off\", \"error\", \"warn\", \"info\", \
                     \"debug\", \"trace\", or a number 0-5";
        let in_list = refused("info, proxy=loud,x=debug");
        assert_eq!(in_list, format!("`proxy=loud`: {level}"));
        let (long, shown) = ("m".repeat(1000), "m".repeat(100));
        assert_eq!(
            refused(&format!("{long}=loud")),
            format!("`{shown}…`: {level}")
        );
        assert_eq!(refused(&long), format!("`{shown}…` is no level"));
    }

    #[test]
    fn what_is_no_filter_leaves_the_one_in_force() {
        let (log, _layer) = control();
        for text in [
            "",
            "  ",
            "verbose",
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
