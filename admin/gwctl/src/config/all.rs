//! `gwctl config all`: the whole configuration.

use std::io::Write;

use admin_types::dump::{Backend, Bind, Dump, Listener, Policy, Route, Service, Version};
use anyhow::Result;
use serde::Serialize;

use super::key::Key;
use super::policies;
use super::routes::{backends, matches};
use super::scope::Scope;
use crate::args::AllOutput;
use crate::output::{self, line};

/// The dump without runtime, source, workloads and certificates.
#[derive(Serialize)]
struct Summary<'a> {
    version: &'a Version,
    binds: &'a [Bind],
    listeners: &'a [Listener],
    routes: &'a [Route],
    backends: &'a [Backend],
    services: &'a [Service],
    policies: &'a [Policy],
}

impl<'a> Summary<'a> {
    fn new(dump: &'a Dump) -> Self {
        Self {
            version: &dump.version,
            binds: &dump.binds,
            listeners: &dump.listeners,
            routes: &dump.routes,
            backends: &dump.backends,
            services: &dump.services,
            policies: &dump.policies,
        }
    }
}

/// Prints a dump. JSON is complete, so that `--file` can read it.
pub(super) fn write(scope: &Scope, format: AllOutput, out: &mut dyn Write) -> Result<()> {
    let dump = &scope.dump;
    match format {
        AllOutput::Short => tree(dump, out),
        AllOutput::Yaml => output::yaml(&Summary::new(dump), out),
        AllOutput::Json => output::json(dump, out),
    }
}

/// Prints the tree of bind, listener, rule and backends.
fn tree(dump: &Dump, out: &mut dyn Write) -> Result<()> {
    for bind in &dump.binds {
        line(&bind_line(bind), out)?;
        for listener in dump.listeners.iter().filter(|it| it.bind == bind.key) {
            let Listener { name, protocol, .. } = listener;
            let hostname = listener.hostname.as_deref().unwrap_or("*");
            line(&format!("  listener {name}  {protocol}  {hostname}"), out)?;
            for route in dump.routes.iter().filter(|it| it.listener == listener.key) {
                rule(route, out)?;
            }
        }
    }
    for policy in &dump.policies {
        let object = Key::parse(&policy.key).object();
        let target = policies::target(&policy.target);
        line(&format!("{object}  for {target}"), out)?;
    }
    Ok(())
}

fn bind_line(bind: &Bind) -> String {
    let Bind {
        transport,
        address,
        port,
        gateway,
        ..
    } = bind;
    let address = if address.contains(':') {
        format!("[{address}]")
    } else {
        address.clone()
    };
    format!("{transport} {address}:{port}  Gateway/{gateway}")
}

fn rule(route: &Route, out: &mut dyn Write) -> Result<()> {
    let key = Key::parse(&route.key);
    let (object, name) = (key.object(), route.name.as_deref().unwrap_or(key.part));
    let hostnames = match route.hostnames.as_slice() {
        [] => "*".to_owned(),
        hostnames => hostnames.join(","),
    };
    let matches = matches(&route.matches);
    line(
        &format!("    {object} rule {name}  {hostnames}  {matches}"),
        out,
    )?;
    if !route.backends.is_empty() {
        line(&format!("      to {}", backends(&route.backends)), out)?;
    }
    Ok(())
}
