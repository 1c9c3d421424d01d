//! `gwctl config`: the loaded configuration as a tree, table, YAML or JSON.

mod all;
mod backends;
mod diff;
mod key;
mod listeners;
mod policies;
mod routes;
mod scope;
mod sources;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

use admin_types::dump::Dump;
use anyhow::{Result, ensure};

pub(crate) use self::key::Key;
use self::listeners::Listeners;
pub(crate) use self::policies::target;
use self::scope::Scope;
pub(crate) use self::scope::restrict;
use crate::args::{AllOutput, BackendsOutput, ConfigArgs, ConfigPart, ListArgs, Output};
use crate::pods;
use crate::source::Source;

/// Prints a part of the configuration; of a comparison, exits with failure if there are differences, as `diff`
/// does.
///
/// # Errors
/// The dump cannot be read, or the output not written.
pub(crate) fn run(args: &ConfigArgs, source: &Source, out: &mut dyn Write) -> Result<ExitCode> {
    if let ConfigPart::Diff {
        resource,
        config,
        unknown_fields,
        port_offset,
    } = &args.part
    {
        let config = diff::Config {
            files: config,
            unknown_fields: *unknown_fields,
            port_offset: *port_offset,
        };
        let changes = diff::write(&config, resource.as_ref(), source, out)?;
        return Ok(if changes == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    print(&args.part, source, out)?;
    Ok(ExitCode::SUCCESS)
}

fn print(part: &ConfigPart, source: &Source, out: &mut dyn Write) -> Result<()> {
    match part {
        ConfigPart::All { resource, output } => {
            let scope = Scope::read(source, resource.as_ref())?;
            all::write(&scope, *output, out)
        }
        ConfigPart::Backends {
            resource,
            output,
            all_pods,
            all,
        } => {
            let list = ListArgs {
                resource: resource.clone(),
                output: match output {
                    BackendsOutput::Table | BackendsOutput::Wide => Output::Table,
                    BackendsOutput::Yaml => Output::Yaml,
                    BackendsOutput::Json => Output::Json,
                },
                all_pods: *all_pods,
            };
            let scopes = Scope::of_pods(source, &list)?;
            let rows = of_each(scopes, |scope| backends::rows(&scope, *all));
            if *output == BackendsOutput::Wide {
                pods::write(&rows, |rows| backends::wide(rows), list.output, out)
            } else {
                pods::write(&rows, |rows| backends::table(rows), list.output, out)
            }
        }
        ConfigPart::Routes(args) => {
            let scopes = Scope::of_pods(source, args)?;
            let routes = of_each(scopes, |scope| scope.dump.routes);
            pods::write(&routes, |it| routes::table(it), args.output, out)
        }
        ConfigPart::Listeners(args) => {
            let scopes = Scope::of_pods(source, args)?;
            let all = of_each(scopes, |scope| Listeners::from(scope.dump));
            pods::write(&all, listeners::table, args.output, out)
        }
        ConfigPart::Policies {
            list,
            rule: Some(rule),
        } => {
            let scopes = Scope::of_pods(source, list)?;
            let has_rule = |(_, scope): &(_, Scope)| sources::has_rule(&scope.dump, rule);
            ensure!(
                scopes.iter().any(has_rule),
                "there is no rule of {rule}: `gwctl config routes` lists them"
            );
            let settings = of_each(scopes, |scope| sources::settings(&scope.dump, rule));
            pods::write(&settings, |it| sources::table(it), list.output, out)
        }
        ConfigPart::Policies { list, rule: None } => {
            let scopes = Scope::of_pods(source, list)?;
            let policies = of_each(scopes, |scope| scope.dump.policies);
            pods::write(&policies, |it| policies::table(it), list.output, out)
        }
        ConfigPart::Diff { .. } => unreachable!("it was run above"),
    }
}

/// A part of each dump, with the pod it is of.
fn of_each<T>(
    scopes: Vec<(Option<String>, Scope)>,
    part: impl Fn(Scope) -> T,
) -> Vec<(Option<String>, T)> {
    let parts = scopes.into_iter().map(|(pod, scope)| (pod, part(scope)));
    parts.collect()
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
        backends::wide(&rows).write(out)?;
    }
    routes::table(&dump.routes).write(out)?;
    policies::table(&dump.policies).write(out)?;
    let objects = dump.routes.iter();
    let objects: BTreeSet<_> = objects.map(|it| Key::parse(&it.key).object()).collect();
    for object in objects {
        sources::table(&sources::settings(dump, &object)).write(out)?;
    }
    diff::compare(dump, &Dump::default(), out)?;
    listeners::table(&scope.dump.into()).write(out)?;
    Ok(String::from_utf8(text)?)
}

#[cfg(test)]
mod tests;
