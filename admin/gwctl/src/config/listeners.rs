//! `gwctl config listeners`: listeners and whether they are bound.

use admin_types::dump::{Bind, Dump, Listener, Runtime};
use serde::Serialize;

use crate::table::Table;

/// The listeners of a proxy, with their state.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Listeners {
    all: Vec<Listener>,
    #[serde(skip)]
    binds: Vec<Bind>,
    #[serde(skip)]
    runtime: Option<Runtime>,
}

impl From<Dump> for Listeners {
    fn from(dump: Dump) -> Self {
        Self {
            all: dump.listeners,
            binds: dump.binds,
            runtime: dump.runtime,
        }
    }
}

/// One row per listener.
pub(super) fn table(listeners: &Listeners) -> Table<7> {
    let mut table = Table::new([
        "GATEWAY", "LISTENER", "ADDRESS", "PORT", "PROTOCOL", "HOSTNAME", "STATUS",
    ]);
    for listener in &listeners.all {
        let bind = listeners
            .binds
            .iter()
            .find(|bind| bind.key == listener.bind);
        table.row([
            listener.gateway.clone(),
            listener.name.clone(),
            bind.map(|bind| bind.address.clone()).unwrap_or_default(),
            bind.map(|bind| bind.port.to_string()).unwrap_or_default(),
            listener.protocol.clone(),
            listener.hostname.clone().unwrap_or_else(|| "*".to_owned()),
            status(listeners.runtime.as_ref(), &listener.bind),
        ]);
    }
    table.sort();
    table
}

/// Whether the proxy is listening; empty where the dump has no runtime section.
fn status(runtime: Option<&Runtime>, bind: &str) -> String {
    let Some(runtime) = runtime else {
        return String::new();
    };
    match runtime.binds_down.iter().find(|down| down.bind == bind) {
        Some(down) => format!("down: {}", down.reason),
        None => "up".to_owned(),
    }
}
