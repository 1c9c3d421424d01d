//! `gwctl config`: what is loaded, as trees, tables, YAML and JSON.

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
/// It cannot be had or printed.
pub(crate) fn run(args: &ConfigArgs, source: &Source, out: &mut dyn Write) -> Result<()> {
    match &args.part {
        ConfigPart::All { resource, output } => {
            let scope = Scope::of(source, resource.as_ref())?;
            all::write(&scope, *output, out)
        }
        ConfigPart::Backends {
            resource,
            output,
            all,
        } => {
            let scope = Scope::of(source, resource.as_ref())?;
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
            port_offset,
        } => diff::write(config, *port_offset, source, out),
    }
}

/// Everything that is shown of a dump.
///
/// # Errors
/// It cannot be put into words.
pub(crate) fn everything(dump: Dump) -> Result<String> {
    let scope = Scope { dump };
    let mut text = Vec::new();
    let out = &mut text;
    for form in [AllOutput::Short, AllOutput::Yaml, AllOutput::Json] {
        all::write(&scope, form, out)?;
    }
    let dump = &scope.dump;
    for every in [true, false] {
        let rows = backends::rows(&scope, every);
        backends::table(&rows).write(out)?;
    }
    routes::table(&dump.routes).write(out)?;
    policies::table(&dump.policies).write(out)?;
    listeners::table(dump).write(out)?;
    diff::between(dump, &Dump::default(), out)?;
    Ok(String::from_utf8(text)?)
}

fn scoped(args: &ListArgs, source: &Source) -> Result<Scope> {
    Scope::of(source, args.resource.as_ref())
}

fn list<T: Serialize, const COLUMNS: usize>(
    items: &[T],
    table: impl Fn(&[T]) -> Table<COLUMNS>,
    form: Output,
    out: &mut dyn Write,
) -> Result<()> {
    match form {
        Output::Table => table(items).write(out).map_err(Into::into),
        Output::Yaml => output::yaml(&items, out),
        Output::Json => output::json(&items, out),
    }
}

#[cfg(test)]
mod tests;
