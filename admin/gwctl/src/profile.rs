//! `gwctl profile`: fetches and saves a CPU or heap profile.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};

use crate::args::{ProfileArgs, ProfileKind};
use crate::source::Source;

/// Records a profile, saves it, and prints where it is and how to open it.
///
/// # Errors
/// It cannot be recorded or saved.
pub(crate) fn run(args: &ProfileArgs, source: &Source, out: &mut dyn Write) -> Result<()> {
    let format = if args.flamegraph {
        "flamegraph"
    } else {
        "pprof"
    };
    let client = source.client(args.resource.as_ref())?;
    let profile = match args.kind {
        ProfileKind::Cpu => {
            let seconds = args.seconds;
            eprintln!("sampling for {seconds} s …");
            let path = format!("/debug/pprof/profile?seconds={seconds}&format={format}");
            client.profile(&path, Duration::from_secs(u64::from(seconds)))?
        }
        ProfileKind::Heap => {
            let path = format!("/debug/pprof/heap?format={format}");
            client.profile(&path, Duration::ZERO)?
        }
    };
    let magic = if args.flamegraph { SVG } else { GZIP };
    if !profile.starts_with(magic) {
        bail!("the response is not a profile; is it the address of an admin server?");
    }
    let path = args.output.clone().unwrap_or_else(|| name(args));
    if path == Path::new("-") {
        out.write_all(&profile)?;
        return Ok(());
    }
    let shown = path.display();
    fs::write(&path, &profile).with_context(|| format!("cannot write {shown}"))?;
    let how = if args.flamegraph {
        "open it in a browser".to_owned()
    } else {
        format!("open it with `go tool pprof -http=: {shown}` or on speedscope.app")
    };
    writeln!(out, "{shown}: {} bytes; {how}", profile.len())?;
    Ok(())
}

/// Magic number of gzip (RFC 1952 section 2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];
/// Start of the server's SVG.
const SVG: &[u8] = b"<?xml";

/// Default file name, unique by the second.
fn name(args: &ProfileArgs) -> PathBuf {
    let kind = match args.kind {
        ProfileKind::Cpu => "cpu",
        ProfileKind::Heap => "heap",
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let extension = if args.flamegraph { "svg" } else { "pb.gz" };
    PathBuf::from(format!("gateway-{kind}-{now}.{extension}"))
}
