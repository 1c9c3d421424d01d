//! `gwctl log`: shows or sets the log level.

use std::fmt::Write as _;
use std::io::Write;

use anyhow::{Result, bail};

use crate::args::LogArgs;
use crate::output::line;
use crate::source::{PodClient, Source};

/// Sets the level where one is given, and prints the current one.
///
/// # Errors
/// The gateway rejects the level, or is unreachable.
pub(crate) fn run(args: &LogArgs, source: &Source, out: &mut dyn Write) -> Result<()> {
    for PodClient { pod, client } in source.clients(args.resource.as_ref(), args.all_pods)? {
        let response = match &args.level {
            Some(level) => client.post(&format!("/logging?level={}", escaped(level)))?,
            None => client.get("/logging")?,
        };
        let response = String::from_utf8_lossy(&response);
        if !response.starts_with(PREFIX) {
            bail!("the response is not a log level; is it the address of an admin server?");
        }
        let prefix = pod.map_or_else(String::new, |pod| format!("{pod}: "));
        for text in response.lines() {
            line(&format!("{prefix}{text}"), out)?;
        }
    }
    Ok(())
}

/// Start of the server's response.
const PREFIX: &str = "current log level is ";

/// Percent-encodes a query parameter's value.
pub(crate) fn escaped(text: impl AsRef<[u8]>) -> String {
    let mut escaped = String::new();
    for &byte in text.as_ref() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn delimiters_are_escaped() {
        assert_eq!(
            escaped("info,proxy::x=debug&a b"),
            "info%2Cproxy%3A%3Ax%3Ddebug%26a%20b"
        );
    }
}
