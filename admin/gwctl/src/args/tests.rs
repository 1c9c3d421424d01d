use clap::{CommandFactory as _, Parser as _};
use http::Method;

use super::{Cli, Command, join_local};

fn parsed(line: &str) -> Result<Cli, String> {
    let line = join_local(line.split(' ').map(Into::into));
    let cli = Cli::try_parse_from(line).map_err(|error| error.to_string())?;
    cli.check()?;
    Ok(cli)
}

#[test]
fn the_clap_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn trace_takes_curl_options() {
    let line = "gwctl trace gateway/shop -n web --local --port 80 -X PUT -H a:b -d x -- http://h/p";
    let cli = parsed(line).expect("a command");
    let Command::Trace(trace) = cli.command else {
        panic!("a trace")
    };
    assert_eq!(trace.url.expect("a URL").path(), "/p");
    assert_eq!(trace.request, Some(Method::PUT));
    assert_eq!(cli.source.local.as_deref(), Some("localhost:15000"));
    assert_eq!(cli.source.namespace.as_deref(), Some("web"));
}

#[test]
fn local_takes_an_address_after_a_space() {
    for (line, local) in [
        ("gwctl log --local 127.0.0.1:26000", "127.0.0.1:26000"),
        ("gwctl --local [::1]:26000 log", "[::1]:26000"),
        ("gwctl log --local unix:/run/a.sock", "unix:/run/a.sock"),
        ("gwctl config all --local edge", "localhost:15000"),
        ("gwctl config all --local edge:26000 edge", "edge:26000"),
        ("gwctl trace --local --port 80 -- h:80", "localhost:15000"),
    ] {
        let cli = parsed(line).expect(line);
        assert_eq!(cli.source.local.as_deref(), Some(local), "{line}");
    }
    for line in [
        "gwctl config all --local edge:http",
        "gwctl config all --local=edge:26000 edge:26001",
    ] {
        let error = parsed(line).expect_err(line);
        assert!(error.contains("--local=HOST:PORT"), "{error}");
    }
}

#[test]
fn invalid_combinations_of_arguments_are_rejected() {
    for (line, is_valid) in [
        ("gwctl trace --local --port 80 -- h/p", true),
        ("gwctl trace --local --next", true),
        ("gwctl trace --local", true),
        ("gwctl trace gateway/edge --local --raw", true),
        ("gwctl trace --local -X PUT", false),
        ("gwctl trace --local http://h/p", false),
        ("gwctl trace --local --next -- h/p", false),
        ("gwctl trace --local --port 80", false),
        ("gwctl trace --local --port 0 -- h/p", false),
        ("gwctl trace --local -- h/p", true),
        ("gwctl trace --local --next --port 80", false),
        ("gwctl trace --local --port 443 -k -- https://h/p", true),
        (
            "gwctl trace --local --port 443 -k --cacert a -- https://h/p",
            false,
        ),
        ("gwctl trace --local --next -k", false),
        ("gwctl trace --local --port 80 -- ftp://h/p", false),
        ("gwctl trace --local --port 80 -- http:///p", false),
        ("gwctl trace --local --port 80 -H a -- h/p", false),
        ("gwctl config diff --file a --file b", true),
        ("gwctl config diff --local --file b", true),
        ("gwctl config diff --local --config a b", true),
        ("gwctl config diff --file a --config b", true),
        ("gwctl config diff --file a", false),
        ("gwctl config diff --local", false),
        ("gwctl config diff --file a --file b --config c", false),
        ("gwctl config all --file a --file b", false),
        ("gwctl config all --local --file a", false),
        ("gwctl config all shop --file a", true),
        ("gwctl config all svc/shop -n web --context a", true),
        ("gwctl config diff edge --config a", true),
        ("gwctl log --local --context a", false),
        ("gwctl log --file a --pod b", false),
        ("gwctl status httproute/a", false),
        ("gwctl check", false),
        ("gwctl profile cpu --seconds 301", false),
    ] {
        assert_eq!(parsed(line).is_ok(), is_valid, "{line}");
    }
}

/// Documents whose commands are parsed.
const DOCUMENTS: [&str; 6] = [
    include_str!("../../../../README.md"),
    include_str!("../../../../k8s/OPERATING.md"),
    include_str!("../../../../k8s/RESOURCES.md"),
    include_str!("../../../../k8s/idp/README.md"),
    include_str!("../../../README.md"),
    include_str!("../../README.md"),
];

/// The commands of the documents, as a shell would pass them. In the text, those of `idp` lack the
/// arguments that all of them need.
fn documented_commands() -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    for line in DOCUMENTS.into_iter().flat_map(str::lines) {
        let whole = line.strip_prefix("$ ").unwrap_or(line);
        let spans = line.split('`').skip(1).step_by(2);
        let spans = spans.filter(|span| !span.starts_with("gwctl idp"));
        commands.extend(
            spans
                .chain([whole])
                .filter(|text| text.starts_with("gwctl ")),
        );
    }
    // A line of the output of `gwctl version`.
    commands.retain(|command| !command.contains("  0."));
    let with_provider =
        |command: &str| command.replace("$idp", "--url http://a --admin-user admin");
    let commands = commands.into_iter().map(with_provider);
    commands.map(|command| shell_words(&command)).collect()
}

/// Words of a command, up to a pipe, a redirection or a comment.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut rest) = (Vec::new(), line.trim_start());
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '#' | '|' | '>' | '&' => break,
            '\'' => rest[1..].split_once('\'').expect("a closed quote"),
            _ => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

#[test]
fn the_commands_of_the_documents_are_valid() {
    let commands = documented_commands();
    assert!(commands.len() > 35, "{commands:?}");
    let mut wrong = Vec::new();
    for words in commands {
        let line = words.join(" ");
        let parsed = Cli::try_parse_from(join_local(words.into_iter().map(Into::into)));
        let checked = parsed.map_err(|error| error.to_string());
        if let Err(why) = checked.and_then(|cli| cli.check().map_err(str::to_owned)) {
            wrong.push(format!("{line}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
