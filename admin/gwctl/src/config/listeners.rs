//! `gwctl config listeners`.

use std::collections::BTreeMap;

use admin_types::dump::Dump;

use crate::table::Table;

/// A row for each listener.
pub(super) fn table(dump: &Dump) -> Table<7> {
    let mut table = Table::new([
        "GATEWAY", "LISTENER", "ADDRESS", "PORT", "PROTOCOL", "HOSTNAME", "STATUS",
    ]);
    let down = dump.runtime.binds_down.iter();
    let down: BTreeMap<&str, &str> = down
        .map(|down| (down.bind.as_str(), down.reason.as_str()))
        .collect();
    for listener in &dump.listeners {
        let bind = dump.binds.iter().find(|bind| bind.key == listener.bind);
        let down = down.get(listener.bind.as_str());
        table.row([
            listener.gateway.clone(),
            listener.name.clone(),
            bind.map(|bind| bind.address.clone()).unwrap_or_default(),
            bind.map(|bind| bind.port.to_string()).unwrap_or_default(),
            listener.protocol.clone(),
            listener.hostname.clone().unwrap_or_else(|| "*".to_owned()),
            down.map_or_else(|| "up".to_owned(), |reason| format!("down: {reason}")),
        ]);
    }
    table.sort();
    table
}
