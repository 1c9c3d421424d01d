//! `gateway check`: checks files as this machine's proxy would load them, without applying them.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use jiff::Timestamp;
use translate::check::{Slices, Verdict, requested_addresses};
use translate::files::{Listed, Source, UnknownFields};
use translate::{Environment, Options, Store};

use super::files::Files;
use super::origin;

/// Reads files and folders, and writes the findings.
///
/// # Errors
/// Writing to `out` fails.
pub fn check(
    paths: Vec<PathBuf>,
    unknown_fields: UnknownFields,
    port_offset: u16,
    out: &mut dyn Write,
) -> io::Result<Verdict> {
    let options = |store: &Store| Options {
        port_offset,
        now: Some(Timestamp::now()),
        environment: Environment::Machine {
            addresses: origin::local_addresses(requested_addresses(store)),
        },
        ..Options::machine()
    };
    let listed = Files::new(paths).scan(&BTreeSet::new()).into_iter();
    let sources = listed.filter_map(|listed| match listed {
        Listed::Read(source) => Some(source),
        // The first load reads everything.
        Listed::Unchanged(_) => None,
    });
    let sources: Vec<Source> = sources.collect();
    let reading = (unknown_fields, Slices::InFiles);
    translate::check::check(&sources, reading, options, out)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{UnknownFields, Verdict, check};

    #[test]
    fn an_unreadable_file_fails_the_check() {
        let mut out = Vec::new();
        let paths = vec![PathBuf::from("/nowhere/a.yaml")];
        let verdict = check(paths, UnknownFields::Refuse, 0, &mut out);
        assert_eq!(verdict.expect("a vector takes all"), Verdict::Bad);
        let text = String::from_utf8(out).expect("it is text");
        assert!(text.contains("check the path"), "{text}");
    }
}
