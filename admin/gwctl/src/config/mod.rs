//! `gwctl config`: the loaded configuration as a tree, table, YAML or JSON.

mod all;
mod backends;
mod diff;
mod key;
mod listeners;
mod policies;
mod routes;
mod scope;

use std::io::Write;

use admin_types::dump::{Dump, Listener};
use anyhow::Result;
use serde::Serialize;

use self::scope::Scope;
use crate::args::{AllOutput, ConfigArgs, ConfigPart, ListArgs, Output};
use crate::output;
use crate::source::Source;
use crate::table::Table;

/// Prints a part of the configuration.
///
/// # Errors
/// The dump cannot be read, or the output not written.
pub(crate) fn run(args: &ConfigArgs, source: &Source, out: &mut dyn Write) -> Result<()> {
    match &args.part {
        ConfigPart::All { resource, output } => {
            let scope = Scope::read(source, resource.as_ref())?;
            all::write(&scope, *output, out)
        }
        ConfigPart::Backends {
            resource,
            output,
            all,
        } => {
            let scope = Scope::read(source, resource.as_ref())?;
            let rows = backends::rows(&scope, *all);
            list(&rows, backends::table, *output, out)
        }
        ConfigPart::Routes(args) => {
            let scope = scoped(args, source)?;
            list(&scope.dump.routes, routes::table, args.output, out)
        }
        ConfigPart::Listeners(args) => {
            let scope = scoped(args, source)?;
            let table = |_: &[Listener]| listeners::table(&scope.dump);
            list(&scope.dump.listeners, table, args.output, out)
        }
        ConfigPart::Policies(args) => {
            let scope = scoped(args, source)?;
            list(&scope.dump.policies, policies::table, args.output, out)
        }
        ConfigPart::Diff {
            config,
            unknown_fields,
            port_offset,
        } => diff::write(config, *unknown_fields, *port_offset, source, out),
    }
}

/// Prints a dump in every format, for the fuzz targets.
///
/// # Errors
/// The dump cannot be serialized.
pub(crate) fn everything(dump: Dump) -> Result<String> {
    let scope = Scope { dump };
    let mut text = Vec::new();
    let out = &mut text;
    for format in [AllOutput::Short, AllOutput::Yaml, AllOutput::Json] {
        all::write(&scope, format, out)?;
    }
    let dump = &scope.dump;
    for every in [true, false] {
        let rows = backends::rows(&scope, every);
        backends::table(&rows).write(out)?;
    }
    routes::table(&dump.routes).write(out)?;
    policies::table(&dump.policies).write(out)?;
    listeners::table(dump).write(out)?;
    diff::compare(dump, &Dump::default(), out)?;
    Ok(String::from_utf8(text)?)
}

fn scoped(args: &ListArgs, source: &Source) -> Result<Scope> {
    Scope::read(source, args.resource.as_ref())
}

fn list<T: Serialize, const COLUMNS: usize>(
    items: &[T],
    table: impl Fn(&[T]) -> Table<COLUMNS>,
    format: Output,
    out: &mut dyn Write,
) -> Result<()> {
    match format {
        Output::Table => table(items).write(out).map_err(Into::into),
        Output::Yaml => output::yaml(&items, out),
        Output::Json => output::json(&items, out),
    }
}

#[cfg(test)]
mod tests;
