//! Which targets of policies carry traffic.

use std::collections::HashSet;

use xds::model::{Model, ObjectName, PolicyTarget, Route};

/// What is in a model, as policies name it.
pub(crate) struct InUse<'m> {
    model: &'m Model,
    gateways: HashSet<&'m ObjectName>,
    /// Routes as kind and `namespace/name`, and their rules' names.
    routes: HashSet<(&'m str, &'m str)>,
    rules: HashSet<(&'m str, &'m str, &'m str)>,
}

impl<'m> InUse<'m> {
    pub(crate) fn of(model: &'m Model) -> Self {
        let routes = model.routes.values();
        let object = |route: &'m Route| (route.key.kind(), route.order.object.as_str());
        let named = routes.clone().filter_map(|route| {
            let (kind, object) = object(route);
            Some((kind, object, route.rule.name()?))
        });
        Self {
            model,
            gateways: model.listeners.values().map(|it| &it.gateway).collect(),
            routes: routes.map(object).collect(),
            rules: named.collect(),
        }
    }

    pub(crate) fn has(&self, target: &PolicyTarget) -> bool {
        match target {
            PolicyTarget::Gateway(name) => self.gateways.contains(name),
            PolicyTarget::ListenerSet(name) => {
                let mut listeners = self.model.listeners.keys();
                listeners.any(|key| key.listener_set().as_ref() == Some(name))
            }
            PolicyTarget::Listener(key) => self.model.listeners.contains_key(key),
            PolicyTarget::Route { kind, object } => {
                self.routes.contains(&(&**kind, &*object.to_string()))
            }
            PolicyTarget::Rule { kind, object, rule } => {
                let rule = (&**kind, &*object.to_string(), &**rule);
                self.rules.contains(&rule)
            }
            PolicyTarget::Service(key) => self.model.services.contains_key(key),
            PolicyTarget::Backend(key) => self.model.backends.contains_key(key),
        }
    }
}
