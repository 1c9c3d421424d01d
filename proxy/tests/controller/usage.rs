//! Errors of the command line are reported before anything starts.

use crate::support::{Driver, gateway};

#[test]
fn exactly_one_configuration_source_is_required() {
    for (arguments, code, expected) in [
        (
            &[
                "--xds",
                "http://a:1",
                "--config",
                "a.yaml",
                "--gateway",
                "a/b",
            ][..],
            2,
            "cannot be used with",
        ),
        (&["--xds", "http://a:1"], 2, "--gateway <NAMESPACE/NAME>"),
        (
            &["--xds", "http://a:1", "--gateway", "a"],
            2,
            "is not NAMESPACE/NAME of a Gateway",
        ),
        (&["--xds-token", "file"], 2, "--xds <ADDRESS>"),
        (
            &["--xds", "a:1", "--gateway", "a/b"],
            1,
            "use https://HOST:PORT or http://HOST:PORT",
        ),
        (
            &["--xds", "https://a:1", "--gateway", "a/b"],
            1,
            "specify the file of its certificate authority",
        ),
    ] {
        let failure = gateway(Driver::Auto)
            .configured_by(arguments)
            .fails_with("");
        assert_eq!(failure.code, Some(code), "{arguments:?}: {}", failure.log);
        assert!(
            failure.log.contains(expected),
            "{arguments:?}: {}",
            failure.log
        );
    }
}
