//! The main table: every scenario against every proxy.

use super::document::{Block, NO_VALUE, Table, Tone};
use super::plots::figure;
use super::summary::CaseSummary;
use crate::record::{BenchRecord, PeerInfo};
use crate::scenario::Metric;

/// The blocks: CPU per request, and bytes per idle connection where those were measured.
pub(super) fn blocks(record: &BenchRecord, summaries: &[CaseSummary<'_>]) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(2, "Overview".to_owned())];
    for (metric, caption) in [
        (
            Metric::Cpu,
            "CPU of the proxy in µs per request (message, handshake), medians:",
        ),
        (
            Metric::RssPerConnection,
            "Resident bytes per idle connection, medians:",
        ),
    ] {
        let table = table(&record.peers, summaries, metric);
        if !table.rows.is_empty() {
            blocks.push(Block::Text(caption.to_owned()));
            blocks.push(Block::Table(table.without_empty_columns()));
        }
    }
    blocks
}

fn table(peers: &[PeerInfo], summaries: &[CaseSummary<'_>], metric: Metric) -> Table {
    let names = peers.iter().map(|peer| peer.name.as_str());
    let columns: Vec<&str> = std::iter::once("scenario").chain(names).collect();
    let mut table = Table::new(&columns, 1);
    for summary in summaries
        .iter()
        .filter(|summary| summary.metric() == metric)
    {
        let value = |peer: &PeerInfo| {
            let spread = summary.row(&peer.name)?.spread(metric)?;
            Some(figure(spread.median))
        };
        let values = peers
            .iter()
            .map(|peer| value(peer).unwrap_or_else(|| NO_VALUE.to_owned()));
        table.push(
            Tone::Plain,
            std::iter::once(summary.case.name()).chain(values).collect(),
        );
    }
    table
}
