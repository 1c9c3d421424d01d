//! A Gateway without its listeners.

use std::sync::Arc;

use xds::model::ObjectName;

use super::api::Gateway;
use super::properties::{GatewayProperties, ListenerSetTerms};
#[cfg(any(test, feature = "test-hooks"))]
use crate::engine::defects::panic_if_wanted;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::object_ref::ObjectRef;
use crate::units::GatewayPropertiesUnit;

impl Unit for GatewayPropertiesUnit {
    type Output = GatewayProperties;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<GatewayProperties> {
        #[cfg(any(test, feature = "test-hooks"))]
        panic_if_wanted(&self.0);
        let object = reader.object::<Gateway>(&self.0)?;
        let ours = reader.is_our_class(&object.spec.gateway_class_name);
        ours.then(|| GatewayProperties::resolve(reader, &self.0, object))
    }

    fn publish(
        &self,
        old: Option<&GatewayProperties>,
        new: Option<&GatewayProperties>,
        changes: &mut Changes<'_>,
    ) {
        let name = &self.0;
        changes.fact(Fact::GatewayProperties(name.clone()));
        let terms = |properties: Option<&GatewayProperties>| {
            properties.map(|properties| Arc::clone(&properties.terms))
        };
        if terms(old) != terms(new) {
            changes.fact(Fact::ListenerSetTerms(name.clone()));
        }
        let limits = |properties: Option<&GatewayProperties>| {
            properties.map(|properties| properties.given_limits)
        };
        if limits(old) != limits(new) {
            let environment = &mut changes.objects.options.environment;
            environment.keep_limits(name, limits(new).unwrap_or_default());
        }
        let is_default = |properties: Option<&GatewayProperties>| {
            properties.is_some_and(|properties| properties.is_default)
        };
        if is_default(old) != is_default(new) {
            changes.objects.set_default_gateway(name, is_default(new));
            changes.fact(Fact::DefaultGateways());
        }
        changes.ours(
            &ObjectRef::of::<Gateway>(name),
            (old.is_some(), new.is_some()),
        );
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.gateways.contains_key(&self.0)
    }
}

impl<'a> UnitReader<'a> {
    /// A Gateway of this controller, without its listeners.
    pub(crate) fn properties(&self, gateway: &ObjectName) -> Option<&'a GatewayProperties> {
        self.depend_on(Fact::GatewayProperties(gateway.clone()));
        self.tables.get(&GatewayPropertiesUnit(gateway.clone()))
    }

    /// The terms for ListenerSets of a Gateway of this controller.
    pub(crate) fn terms(&self, gateway: &ObjectName) -> Option<&'a ListenerSetTerms> {
        self.depend_on(Fact::ListenerSetTerms(gateway.clone()));
        let properties = self.tables.get(&GatewayPropertiesUnit(gateway.clone()))?;
        Some(&properties.terms)
    }
}
