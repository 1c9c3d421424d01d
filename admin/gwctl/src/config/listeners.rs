//! `gwctl config listeners`.

use admin_types::dump::{Bind, Listener};

use crate::table::Table;

/// A row for each listener.
pub(super) fn table(listeners: &[Listener], binds: &[Bind]) -> Table<6> {
    let mut table = Table::new([
        "GATEWAY", "LISTENER", "ADDRESS", "PORT", "PROTOCOL", "HOSTNAME",
    ]);
    for listener in listeners {
        let bind = binds.iter().find(|bind| bind.key == listener.bind);
        table.row([
            listener.gateway.clone(),
            listener.name.clone(),
            bind.map(|bind| bind.address.clone()).unwrap_or_default(),
            bind.map(|bind| bind.port.to_string()).unwrap_or_default(),
            listener.protocol.clone(),
            listener.hostname.clone().unwrap_or_else(|| "*".to_owned()),
        ]);
    }
    table.sort();
    table
}
