//! `bench report`: records in, a Markdown file and an HTML page out.

mod cases;
pub(crate) mod document;
mod html;
mod intro;
mod markdown;
mod overview;
pub(crate) mod plots;
mod summary;
mod targets;

use std::path::Path;

use anyhow::{Context, Result};

use crate::args::ReportArgs;
use crate::output::{create_folder, print_line};
use crate::record::{BenchRecord, newest};
use crate::scenario::read_folder;
use document::Block;

const TITLE: &str = "The gateway beside its peers";

/// Writes `report.md`, `report.html` and `plots/*.svg` into the folder of the records.
pub(crate) fn report(args: &ReportArgs) -> Result<()> {
    let mut paths = args.from.clone();
    if paths.is_empty() {
        paths.push(newest(&args.out)?);
    }
    let mut paths = paths.iter();
    let mut record = BenchRecord::read(paths.next().context("no record was given")?)?;
    for path in paths {
        record.merge(BenchRecord::read(path)?)?;
    }
    let cases = read_folder(&args.places.scenarios_folder)?;
    let summaries = summary::summarise(&record, &cases);
    let mut blocks = vec![Block::Heading(1, TITLE.to_owned())];
    blocks.extend(intro::lead(&record));
    blocks.extend(overview::blocks(&record, &summaries));
    blocks.extend(intro::blocks(&record, &summaries));
    blocks.extend(cases::blocks(&summaries)?);
    write(&args.out, "report", TITLE, &blocks)
}

/// Writes `NAME.md`, `NAME.html` and the plots.
pub(crate) fn write(out: &Path, name: &str, title: &str, blocks: &[Block]) -> Result<()> {
    let plots = out.join("plots");
    create_folder(&plots)?;
    for block in blocks {
        if let Block::Plot(plot) = block {
            std::fs::write(plots.join(format!("{}.svg", plot.name)), &plot.svg)?;
        }
    }
    let (text, page) = (
        out.join(format!("{name}.md")),
        out.join(format!("{name}.html")),
    );
    std::fs::write(&text, markdown::render(blocks))?;
    std::fs::write(&page, html::render(title, blocks))?;
    print_line(&format!(
        "report: {} and {}",
        text.display(),
        page.display()
    ));
    Ok(())
}
