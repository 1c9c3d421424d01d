//! The metrics and labels that the programs have, as their sources write them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use charts::path;

use crate::read;

/// The metrics and labels that the programs have.
#[derive(Default)]
pub(super) struct SourceMetrics {
    counters: BTreeSet<String>,
    gauges: BTreeSet<String>,
    histograms: BTreeSet<String>,
    /// Metrics of the controller whose kind is not in its sources.
    others: BTreeSet<String>,
    pub(super) labels: BTreeSet<String>,
}

impl SourceMetrics {
    /// By proxy and controller.
    pub(super) fn by_all() -> Self {
        let mut written = Self::default();
        for file in files(&path("../../proxy/src/inspect/scrape")) {
            written.read_proxy(&read(&file));
        }
        for file in files(&path("../../controller/src")) {
            written.read_controller(&read(&file));
        }
        written
    }

    /// Metrics written by a file of the proxy's scrape.
    pub(super) fn read_proxy(&mut self, source: &str) {
        // Regardless of line breaks.
        let source: String = source.split_whitespace().collect();
        for (names, prefix, markers) in [
            (
                &mut self.counters,
                "gateway_",
                &["counter(", "by_cause(", "by_reason("][..],
            ),
            (&mut self.gauges, "gateway_", &["gauge(", "size("]),
            // Only histograms declare their names in advance.
            (
                &mut self.histograms,
                "gateway_",
                &["histogram(", "durations(", "letname="],
            ),
            (&mut self.labels, "", &["with(", "push("]),
        ] {
            let uses = markers
                .iter()
                .flat_map(|marker| source.split(marker).skip(1));
            let arguments = uses.map(|rest| rest.strip_prefix("out,").unwrap_or(rest));
            names.extend(
                arguments
                    .filter_map(quoted)
                    .map(|name| format!("{prefix}{name}")),
            );
        }
    }

    /// Metrics registered by a file of the controller.
    pub(super) fn read_controller(&mut self, source: &str) {
        let source: String = source.split_whitespace().collect();
        let section = source
            .split("sub_registry_with_prefix(")
            .nth(1)
            .and_then(quoted);
        let section = section.map(|name| format!("{name}_")).unwrap_or_default();
        for registered in source.split(".register(").skip(1) {
            let Some(name) = quoted(registered) else {
                continue;
            };
            let field = registered
                .split(".clone()")
                .next()
                .and_then(|it| it.rsplit('.').next());
            let names = match kind(&source, field.unwrap_or_default()) {
                Some("Counter") => &mut self.counters,
                Some("Gauge") => &mut self.gauges,
                Some("Histogram") => &mut self.histograms,
                _ => &mut self.others,
            };
            names.insert(format!("gateway_controller_{section}{name}"));
        }
        let collected = source
            .split("encode_descriptor(")
            .skip(1)
            .filter_map(quoted);
        self.gauges
            .extend(collected.map(|name| format!("gateway_controller_{name}")));
        // Of families: pairs, or the fields of a struct.
        let pairs = source.split("[(").skip(1).filter_map(quoted);
        self.labels.extend(pairs.map(str::to_owned));
        for fields in source.split("EncodeLabelSet)]struct").skip(1) {
            let fields = fields
                .split_once('{')
                .and_then(|(_, rest)| rest.split_once('}'));
            let names = fields.into_iter().flat_map(|(fields, _)| fields.split(','));
            let names = names.filter_map(|field| field.split(':').next());
            self.labels.extend(names.map(str::to_owned));
        }
    }

    /// Whether there is a metric of this name, which has the suffix of its kind.
    pub(super) fn has(&self, metric: &str) -> bool {
        let of = |names: &BTreeSet<String>, suffixes: &[&str]| {
            let stems = suffixes
                .iter()
                .filter_map(|suffix| metric.strip_suffix(suffix));
            { stems }.any(|stem| names.contains(stem))
        };
        let of_histograms = ["_bucket", "_sum", "_count"];
        of(&self.counters, &["_total"])
            || of(&self.gauges, &[""])
            || of(&self.histograms, &of_histograms)
            || of(&self.others, &["", "_total", "_bucket", "_sum", "_count"])
    }
}

fn quoted(text: &str) -> Option<&str> {
    Some(text.strip_prefix('"')?.split_once('"')?.0)
}

/// Whether a field is declared as a counter, a gauge or a histogram, or as a family of them.
fn kind<'a>(source: &str, field: &str) -> Option<&'a str> {
    let declared = [',', '{'].iter().find_map(|before| {
        let (_, rest) = source.split_once(&format!("{before}{field}:"))?;
        Some(rest)
    })?;
    let name = declared.split(|it: char| !it.is_alphanumeric()).next()?;
    let alias = source
        .split_once(&format!("type{name}="))
        .map(|(_, rest)| rest);
    let text = alias.unwrap_or(declared);
    let kinds = ["Counter", "Gauge", "Histogram"].iter().copied();
    kinds
        .filter_map(|kind| Some((text.find(kind)?, kind)))
        .min()
        .map(|(_, kind)| kind)
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let entries = entries.map(|entry| entry.expect("an entry").path());
    let below = |entry: PathBuf| {
        if entry.is_dir() {
            files(&entry)
        } else {
            vec![entry]
        }
    };
    entries.flat_map(below).collect()
}
