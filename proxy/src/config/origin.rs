//! Positions of configuration in the user's files, for messages.

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};

use translate::files::Configuration;
use translate::{Object, ObjectRef, api};
use xds::model::{BindKey, Listener, Model};

/// The first listener of a bind: its object, and file and line of its port, as far as known.
pub(super) fn of_bind(bind: &BindKey, model: &Model, configuration: &Configuration) -> String {
    let mut listeners = model.listeners.values();
    let Some(listener) = listeners.find(|listener| listener.bind == *bind) else {
        return bind.to_string();
    };
    let object = ObjectRef::of::<api::Gateway>(&listener.gateway);
    let field = field_of(listener, configuration.get(&object));
    let place = configuration.locate(&object, field.as_deref());
    let place = place.map_or_else(String::new, |(file, line)| format!("{file}:{line}: "));
    format!("{place}{object}, listener {}", listener.name)
}

fn field_of(listener: &Listener, gateway: Option<&Object>) -> Option<String> {
    let Object::Gateway(gateway) = gateway? else {
        return None;
    };
    let mut listeners = gateway.spec.listeners.iter();
    let index = listeners.position(|it| it.name == listener.name)?;
    Some(format!("spec.listeners[{index}].port"))
}

/// The addresses that Gateways request and this machine has, so that a socket can be bound to them.
pub(super) fn local_addresses(requested: impl Iterator<Item = IpAddr>) -> BTreeSet<IpAddr> {
    requested
        .filter(|address| UdpSocket::bind((*address, 0)).is_ok())
        .collect()
}
