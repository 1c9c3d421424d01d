//! `gwctl trace`: sends a request, or waits for one, and shows how the gateway routed it.
//!
//! `follow` does the I/O, `event` parses the events, `report` formats them; `plain` writes the report
//! to a file or pipe, and `screen` displays it in a terminal.

mod event;
mod follow;
mod plain;
mod report;
mod request;
mod screen;
mod sse;
mod unattached;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use admin_types::dump::Bind;
use anyhow::{Result, bail};
use http::Uri;

use self::event::TraceEvent;
use self::report::Report;
use self::request::TracedRequest;
use self::sse::{Item, Reader};
use crate::args::TraceArgs;
use crate::output::{escaped, shown};
use crate::source::{self, Source};

/// Traces a request and prints the trace; exits with failure where it is incomplete.
///
/// # Errors
/// There is no trace.
pub(crate) fn run(args: &TraceArgs, source: &Source, out: &mut dyn Write) -> Result<ExitCode> {
    let resource = args.resource.as_ref();
    let client = source.client(resource)?;
    let binds = source.binds(&client, resource)?;
    let request = if let Some(url) = &args.url {
        let port = match (args.port, binds) {
            (Some(port), None) => port,
            (Some(port), Some(binds)) => {
                check_port(&binds, port)?;
                port
            }
            (None, Some(binds)) => port_of(url, &binds)?,
            (None, None) => port_of(url, &source::binds(&client)?)?,
        };
        Some(TracedRequest::new(args, url, &client, port)?)
    } else {
        eprintln!(
            "waiting up to {:?} for the next request …",
            client.timeout()
        );
        None
    };
    let incomplete = if args.raw {
        let mut print = |json: &str, _: &TraceEvent| Ok(writeln!(out, "{}", escaped(json))?);
        follow::follow(&client, request, &mut print)?.incomplete
    } else if has_screen() {
        screen::show(move |sink| follow::follow(&client, request, sink))?
    } else {
        let trace = follow::follow(&client, request, &mut |_, _| Ok(()))?;
        let mut report = Report::new(&trace.events);
        report.note(&unattached::notes(&trace.events, source, &client));
        plain::write(&report, out)?;
        trace.incomplete
    };
    Ok(match incomplete {
        None => ExitCode::SUCCESS,
        Some(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    })
}

/// Whether stdin and stdout are a terminal that can be drawn on.
fn has_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !is_dumb && io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// The port that a URL means: its own, if a listener has it, or else the only one.
fn port_of(url: &Uri, binds: &[Bind]) -> Result<u16> {
    let ports = binds.iter().filter(|it| it.transport == "tcp");
    let ports: BTreeSet<u16> = ports.map(|it| it.port).collect();
    let usual = if url.scheme_str() == Some("https") {
        443
    } else {
        80
    };
    let own = url.port_u16().unwrap_or(usual);
    let mut all = ports.iter().copied();
    match (ports.contains(&own), all.next(), all.next()) {
        (true, ..) => Ok(own),
        (false, Some(only), None) => Ok(only),
        (false, None, _) => bail!("the gateway has no listener that a request can be sent to"),
        (false, Some(_), Some(_)) => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            bail!(
                "the gateway listens on several ports, and not on {own}: choose one with --port: {}",
                ports.join(", ")
            )
        }
    }
}

/// Checks that the selected Gateway owns the port, so that the request is not sent to another one.
fn check_port(binds: &[Bind], port: u16) -> Result<()> {
    if binds.iter().any(|bind| bind.port == port) {
        return Ok(());
    }
    let gateways: BTreeSet<&str> = binds.iter().map(|bind| bind.gateway.as_str()).collect();
    let gateways = gateways.into_iter().collect::<Vec<_>>().join(", ");
    let ports: BTreeSet<u16> = binds.iter().map(|bind| bind.port).collect();
    let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
    bail!(
        "Gateway {} has no listener on port {port}; its ports are {}",
        shown(&gateways),
        ports.join(", ")
    )
}

/// Formats a trace that arrives in chunks of this size, as text and raw, for the fuzz targets.
pub(crate) fn everything(bytes: &[u8], chunk: usize) -> String {
    let (mut reader, mut items) = (Reader::default(), Vec::new());
    for chunk in bytes.chunks(chunk.max(1)) {
        if reader.feed(chunk, &mut items).is_err() {
            break;
        }
    }
    let events = items.iter().filter_map(|item| match item {
        Item::Data(text) => Some((text, TraceEvent::parse(text)?)),
        Item::Comment(_) => None,
    });
    let (raw, events): (Vec<_>, Vec<_>) =
        events.map(|(text, event)| (escaped(text), event)).unzip();
    let mut text = Vec::new();
    // Writing to memory is infallible.
    let _ = plain::write(&Report::new(&events), &mut text);
    String::from_utf8_lossy(&text).into_owned() + &raw.join("\n")
}

#[cfg(test)]
mod tests {
    use admin_types::dump::Bind;

    use super::port_of;

    #[test]
    fn a_url_means_the_port_that_it_has_or_the_only_one() {
        let binds = |ports: &[u16]| -> Vec<Bind> {
            let binds = ports.iter().map(|port| Bind {
                key: String::new(),
                address: "::".to_owned(),
                port: *port,
                transport: "tcp".to_owned(),
                gateway: "a/b".to_owned(),
            });
            binds.collect()
        };
        for (url, ports, expected) in [
            ("http://h/", &[8080][..], Some(8080)),
            ("http://h/", &[80, 8080], Some(80)),
            ("https://h/", &[80, 443], Some(443)),
            ("http://h:8081/", &[8080, 8081], Some(8081)),
            ("http://h/", &[8080, 8081], None),
            ("http://h/", &[], None),
        ] {
            let url = url.parse().expect("a URL");
            let port = port_of(&url, &binds(ports));
            assert_eq!(port.as_ref().ok().copied(), expected, "{url} {ports:?}");
            if let Err(error) = port {
                let names = ports
                    .iter()
                    .all(|it| error.to_string().contains(&it.to_string()));
                assert!(names, "{error}");
            }
        }
    }
}
