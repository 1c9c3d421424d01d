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

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use admin_types::dump::Bind;
use anyhow::{Result, bail};

use self::event::TraceEvent;
use self::report::Report;
use self::request::TracedRequest;
use self::sse::{Item, Reader};
use crate::args::TraceArgs;
use crate::output::{escaped, shown};
use crate::source::Source;

/// Traces a request and prints the trace; exits with failure where it is incomplete.
///
/// # Errors
/// There is no trace.
pub(crate) fn run(args: &TraceArgs, source: &Source, out: &mut dyn Write) -> Result<ExitCode> {
    let resource = args.resource.as_ref();
    let client = source.client(resource)?;
    let binds = source.binds(&client, resource)?;
    if let (Some(binds), Some(port)) = (binds, args.port) {
        check_port(&binds, port)?;
    }
    let request = if let (Some(url), Some(port)) = (&args.url, args.port) {
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
        plain::write(&Report::new(&trace.events), out)?;
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
