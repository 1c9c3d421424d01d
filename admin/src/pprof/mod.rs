//! Profiles of the running process, in the form that `go tool pprof` and speedscope read, and as
//! flame graphs.
//!
//! [`cpu`] samples which code runs, for as long as asked; [`heap`] shows what the proxy's allocator
//! has sampled all along. Names are looked up on a background thread.

pub mod cpu;
pub mod heap;
mod sampler;
mod symbols;
mod tables;

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use pprof::protos::{Message, Profile};

/// How a profile is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Gzipped protobuf.
    #[default]
    Pprof,
    /// A flame graph in SVG, to be opened in a browser.
    FlameGraph,
}

impl Format {
    /// Of a query parameter; `None` for one that there is not.
    #[must_use]
    pub fn of(parameter: &str) -> Option<Self> {
        match parameter {
            "pprof" => Some(Self::Pprof),
            "flamegraph" => Some(Self::FlameGraph),
            _ => None,
        }
    }

    /// The type of its content.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Pprof => "application/octet-stream",
            Self::FlameGraph => "image/svg+xml",
        }
    }

    /// The end of its files' names.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Pprof => "pb.gz",
            Self::FlameGraph => "svg",
        }
    }
}

/// Lets go of the debug information that names were looked up in: tens of megabytes, which an idle
/// process must not keep.
struct ForgetsNames;

impl Drop for ForgetsNames {
    fn drop(&mut self) {
        backtrace::clear_symbol_cache();
    }
}

fn gzipped(profile: &Profile) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&profile.encode_to_vec())?;
    encoder.finish()
}

/// A flame graph of folded stacks: `outer;inner;innermost value`, a line each. Where there is none,
/// it says `empty`, a text without markup.
fn flame_graph(folded: &[String], title: &str, unit: &str, empty: &str) -> io::Result<Vec<u8>> {
    if folded.is_empty() {
        return Ok(no_graph(title, empty).into_bytes());
    }
    let mut options = inferno::flamegraph::Options::default();
    title.clone_into(&mut options.title);
    unit.clone_into(&mut options.count_name);
    let mut svg = Vec::new();
    let lines = folded.iter().map(String::as_str);
    inferno::flamegraph::from_lines(&mut options, lines, &mut svg).map_err(io::Error::other)?;
    Ok(svg)
}

/// What is drawn in place of a graph of nothing, for which inferno has an error.
fn no_graph(title: &str, why: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="1200" height="90" font-family="monospace">
<rect width="100%" height="100%" fill="white"/>
<text x="50%" y="35" font-size="17" text-anchor="middle">{title}</text>
<text x="50%" y="65" font-size="12" text-anchor="middle">Nothing was sampled: {why}</text>
</svg>
"#
    )
}
