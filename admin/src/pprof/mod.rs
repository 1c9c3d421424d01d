//! Profiles of the running process, in pprof format (`go tool pprof`, speedscope) and as flame graphs.
//!
//! [`cpu`] takes samples for a given time; [`heap`] encodes the samples that the proxy's allocator takes
//! continuously. Symbolization runs on a background thread.

pub mod cpu;
pub mod heap;
mod sampler;
mod symbols;
mod tables;

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use pprof::protos::{Message, Profile};

/// The format of a profile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Protobuf compressed with gzip.
    #[default]
    Pprof,
    /// A flame graph as interactive SVG.
    FlameGraph,
}

impl Format {
    /// Parses the query parameter `format`.
    #[must_use]
    pub fn parse(parameter: &str) -> Option<Self> {
        match parameter {
            "pprof" => Some(Self::Pprof),
            "flamegraph" => Some(Self::FlameGraph),
            _ => None,
        }
    }

    /// Value of the header `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Pprof => "application/octet-stream",
            Self::FlameGraph => "image/svg+xml",
        }
    }

    /// Extension of the file that a browser saves.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Pprof => "pb.gz",
            Self::FlameGraph => "svg",
        }
    }
}

/// Frees the debug information cached for symbolization on drop: it takes tens of megabytes.
struct SymbolCacheGuard;

impl Drop for SymbolCacheGuard {
    fn drop(&mut self) {
        backtrace::clear_symbol_cache();
    }
}

fn gzipped(profile: &Profile) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&profile.encode_to_vec())?;
    encoder.finish()
}

/// Draws a flame graph of folded stacks: lines of `outer;inner;innermost value`. Without stacks, it
/// shows the text `empty`, which must not contain markup.
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

/// A placeholder for an empty graph, which inferno rejects.
fn no_graph(title: &str, why: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="1200" height="90" font-family="monospace">
<rect width="100%" height="100%" fill="white"/>
<text x="50%" y="35" font-size="17" text-anchor="middle">{title}</text>
<text x="50%" y="65" font-size="12" text-anchor="middle">No samples: {why}</text>
</svg>
"#
    )
}
