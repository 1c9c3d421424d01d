//! `gwctl trace`: sends a request, and shows why it went where it went.
//!
//! `follow` does the I/O, `event` reads what comes, `report` makes text of it, and `plain` and
//! `screen` show that text: the one to a file or pipe, the other in a terminal.

mod event;
mod follow;
mod injected;
mod plain;
mod report;
mod screen;
mod secure;
mod sse;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use admin_types::dump::Bind;
use anyhow::{Result, bail};

use self::event::Seen;
use self::injected::Injected;
use self::report::Report;
use self::sse::{Item, Reader};
use crate::args::TraceArgs;
use crate::output::{escaped, shown};
use crate::source::Source;

/// Traces a request, and fails where the trace is not whole.
///
/// # Errors
/// There is no trace.
pub(crate) fn run(args: &TraceArgs, source: &Source, out: &mut dyn Write) -> Result<ExitCode> {
    let client = source.server()?;
    let binds = source.binds(args.resource.as_ref())?;
    if let (Some(binds), Some(port)) = (binds, args.port) {
        check(&binds, port)?;
    }
    let request = if let (Some(url), Some(port)) = (&args.url, args.port) {
        Some(Injected::of(args, url, &client, port)?)
    } else {
        eprintln!("waiting {:?} for the next request …", client.timeout());
        None
    };
    let trouble = if args.raw {
        let mut print = |json: &str, _: &Seen| Ok(writeln!(out, "{}", escaped(json))?);
        follow::follow(&client, request, &mut print)?.trouble
    } else if has_screen() {
        screen::show(move |sink| follow::follow(&client, request, sink))?
    } else {
        let told = follow::follow(&client, request, &mut |_, _| Ok(()))?;
        plain::write(&Report::of(&told.events), out)?;
        told.trouble
    };
    Ok(match trouble {
        None => ExitCode::SUCCESS,
        Some(trouble) => {
            eprintln!("error: {trouble}");
            ExitCode::FAILURE
        }
    })
}

/// Whether there is a terminal to draw on, and keys to press.
fn has_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !is_dumb && io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Whether the Gateway that is named has the port, so that the request is not sent to another one.
fn check(binds: &[Bind], port: u16) -> Result<()> {
    if binds.iter().any(|bind| bind.port == port) {
        return Ok(());
    }
    let gateways: BTreeSet<&str> = binds.iter().map(|bind| bind.gateway.as_str()).collect();
    let gateways = gateways.into_iter().collect::<Vec<_>>().join(", ");
    let ports: BTreeSet<u16> = binds.iter().map(|bind| bind.port).collect();
    let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
    bail!(
        "Gateway {} has no listener on port {port}, but on {}",
        shown(&gateways),
        ports.join(", ")
    )
}

/// Everything that is shown of a trace that a gateway sends in pieces of this size: as text, and raw.
pub(crate) fn everything(bytes: &[u8], piece: usize) -> String {
    let (mut reader, mut items) = (Reader::default(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        if reader.feed(piece, &mut items).is_err() {
            break;
        }
    }
    let events = items.iter().filter_map(|item| match item {
        Item::Data(text) => Some((text, Seen::read(text)?)),
        Item::Comment(_) => None,
    });
    let (raw, seen): (Vec<_>, Vec<_>) = events.map(|(text, seen)| (escaped(text), seen)).unzip();
    let mut text = Vec::new();
    // Memory takes everything.
    let _ = plain::write(&Report::of(&seen), &mut text);
    String::from_utf8_lossy(&text).into_owned() + &raw.join("\n")
}
