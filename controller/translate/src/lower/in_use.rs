//! Which targets of policies carry traffic.

use std::collections::HashSet;

use xds::model::{Model, ObjectName, PolicyTarget};

/// What is in a model, as policies name it.
pub(crate) struct InUse<'m> {
    model: &'m Model,
    gateways: HashSet<&'m ObjectName>,
    /// Routes as `namespace/name`, and their rules' names.
    routes: HashSet<&'m str>,
    rules: HashSet<(&'m str, &'m str)>,
}

impl<'m> InUse<'m> {
    pub(crate) fn of(model: &'m Model) -> Self {
        let routes = model.routes.values();
        let named = routes.clone().filter_map(|route| {
            let name = route.rule.name.as_deref()?;
            Some((route.order.object.as_str(), name))
        });
        Self {
            model,
            gateways: model.listeners.values().map(|it| &it.gateway).collect(),
            routes: routes.map(|route| route.order.object.as_str()).collect(),
            rules: named.collect(),
        }
    }

    pub(crate) fn has(&self, target: &PolicyTarget) -> bool {
        match target {
            PolicyTarget::Gateway(name) => self.gateways.contains(name),
            PolicyTarget::Listener(key) => self.model.listeners.contains_key(key),
            PolicyTarget::Route { object, .. } => self.routes.contains(&*object.to_string()),
            PolicyTarget::Rule { object, rule, .. } => {
                self.rules.contains(&(&*object.to_string(), &**rule))
            }
            PolicyTarget::Service(key) => self.model.services.contains_key(key),
            PolicyTarget::Backend(key) => self.model.backends.contains_key(key),
        }
    }
}
