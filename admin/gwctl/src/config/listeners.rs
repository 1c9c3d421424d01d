//! `gwctl config listeners`: listeners and whether they are bound.

use admin_types::dump::{Dump, Runtime};

use crate::table::Table;

/// One row per listener.
pub(super) fn table(dump: &Dump) -> Table<7> {
    let mut table = Table::new([
        "GATEWAY", "LISTENER", "ADDRESS", "PORT", "PROTOCOL", "HOSTNAME", "STATUS",
    ]);
    for listener in &dump.listeners {
        let bind = dump.binds.iter().find(|bind| bind.key == listener.bind);
        table.row([
            listener.gateway.clone(),
            listener.name.clone(),
            bind.map(|bind| bind.address.clone()).unwrap_or_default(),
            bind.map(|bind| bind.port.to_string()).unwrap_or_default(),
            listener.protocol.clone(),
            listener.hostname.clone().unwrap_or_else(|| "*".to_owned()),
            status(dump.runtime.as_ref(), &listener.bind),
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
