//! `gwctl config diff`: compares the loaded configuration with files or another dump.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;

use admin_types::dump::{Dump, Version};
use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};
use translate::files::{UnknownFields, admit_with};
use translate::{Options, Store, translate};
use xds::model::{Model, Resources};

use super::scope::restrict;
use crate::check;
use crate::files;
use crate::output::line;
use crate::resource::Resource;
use crate::source::Source;

/// Files to compare with, and how they are read.
pub(super) struct Config<'a> {
    /// Empty where a second dump is compared with instead.
    pub(super) files: &'a [PathBuf],
    pub(super) unknown_fields: UnknownFields,
    pub(super) port_offset: u16,
}

/// Prints a line for each resource that would be added (`+`), removed (`-`) or changed (`~`), and
/// below a changed one its fields before and after. Returns the number of these resources.
pub(super) fn write(
    config: &Config<'_>,
    resource: Option<&Resource>,
    source: &Source,
    out: &mut dyn Write,
) -> Result<usize> {
    let mut loaded = source.dump(resource)?;
    let mut other = if config.files.is_empty() {
        source.other_dump()?
    } else {
        translate_files(config)?
    };
    if source.is_cluster() && !config.files.is_empty() {
        for dump in [&mut loaded, &mut other] {
            leave_out_assigned(dump);
        }
    }
    // An added or removed Gateway is present on one side only.
    if let Some(gateways) = source.gateways(loaded.binds.iter().chain(&other.binds), resource)? {
        loaded = restrict(loaded, &gateways);
        other = restrict(other, &gateways);
    }
    compare(&loaded, &other, out)
}

/// Leaves out what the cluster adds to manifests: times of creation, addresses, pods.
fn leave_out_assigned(dump: &mut Dump) {
    dump.workloads.clear();
    for service in &mut dump.services {
        service.vips.clear();
    }
    for route in &mut dump.routes {
        route.order.created = 0;
    }
}

pub(super) fn compare(loaded: &Dump, other: &Dump, out: &mut dyn Write) -> Result<usize> {
    let (loaded, other) = (resources(loaded), resources(other));
    let mut changes = 0;
    let names = loaded.keys().chain(other.keys());
    let names: BTreeSet<_> = names.collect();
    for name in names {
        let (before, after) = (loaded.get(name), other.get(name));
        match (before, after) {
            (Some(before), Some(after)) if before == after => continue,
            (Some(before), Some(after)) => {
                line(&format!("~ {name}"), out)?;
                fields("", before, after, out)?;
            }
            (None, Some(_)) => line(&format!("+ {name}"), out)?,
            (Some(_), None) => line(&format!("- {name}"), out)?,
            (None, None) => {}
        }
        changes += 1;
    }
    if changes == 0 {
        writeln!(out, "no changes")?;
    }
    Ok(changes)
}

/// Translates the files to a dump. Findings go to stderr.
fn translate_files(config: &Config<'_>) -> Result<Dump> {
    let admitted = admit_with(config.unknown_fields, &files::read(config.files)?);
    for finding in &admitted.findings {
        eprintln!("{finding}");
    }
    let store: Store = admitted
        .objects
        .into_iter()
        .map(|(object, _)| object)
        .collect();
    let options = Options {
        port_offset: config.port_offset,
        ..check::options(&store)
    };
    dump(&translate(&store, &options).model)
}

/// The dump of a proxy with this configuration.
fn dump(model: &Model) -> Result<Dump> {
    let lists = json!({
        "version": Version::default(),
        "binds": list(&model.binds)?,
        "listeners": list(&model.listeners)?,
        "routes": model.rules_at_listeners().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>()?,
        "backends": list(&model.backends)?,
        "workloads": list(&model.workloads)?,
        "services": list(&model.services)?,
        "policies": list(&model.policies)?,
    });
    Ok(serde_json::from_value(lists)?)
}

fn list<T: Serialize>(resources: &Resources<T>) -> Result<Vec<Value>> {
    let values = resources.iter().map(|it| serde_json::to_value(&**it));
    Ok(values.collect::<Result<_, _>>()?)
}

/// Every resource of a dump by category and key, without runtime state.
fn resources(dump: &Dump) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    add("bind", &dump.binds, &mut all);
    add("listener", &dump.listeners, &mut all);
    add("route", &dump.routes, &mut all);
    add("backend", &dump.backends, &mut all);
    add("workload", &dump.workloads, &mut all);
    add("service", &dump.services, &mut all);
    add("policy", &dump.policies, &mut all);
    all
}

fn add<T: Serialize>(category: &str, resources: &[T], all: &mut BTreeMap<String, Value>) {
    for resource in resources {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(resource) else {
            continue;
        };
        let key = fields.remove("key");
        let key = key
            .as_ref()
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        // Runtime state, not configuration.
        fields.remove("endpoints");
        all.insert(format!("{category} {key}"), Value::Object(fields));
    }
}

/// Prints the fields that differ, by path.
fn fields(path: &str, before: &Value, after: &Value, out: &mut dyn Write) -> Result<()> {
    if let (Value::Object(old), Value::Object(new)) = (before, after) {
        let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
        for name in names {
            let (old, new) = (old.get(name), new.get(name));
            if old != new {
                let path = format!("{path}.{name}");
                let none = &Value::Null;
                fields(&path, old.unwrap_or(none), new.unwrap_or(none), out)?;
            }
        }
        return Ok(());
    }
    for (sign, value) in [('-', before), ('+', after)] {
        if !value.is_null() {
            let path = path.trim_start_matches('.');
            line(&format!("    {sign} {path}: {value}"), out)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::fields;

    #[test]
    fn only_changed_fields_are_printed() {
        let mut text = Vec::new();
        let before = json!({"a": 1, "b": {"c": [1], "d": 2}});
        let after = json!({"a": 1, "b": {"c": [1, 2], "e": 3}});
        fields("", &before, &after, &mut text).expect("memory");
        let text = String::from_utf8(text).expect("text");
        assert_eq!(
            text,
            "    - b.c: [1]\n    + b.c: [1,2]\n    - b.d: 2\n    + b.e: 3\n"
        );
    }
}
