//! A dump, restricted to the selected Gateways.

use std::collections::BTreeSet;

use admin_types::dump::{Dump, Filters, PolicyTarget, Route, Target};
use anyhow::Result;

use super::key::Key;
use crate::args::ListArgs;
use crate::resource::Resource;
use crate::source::Source;

/// The part of a dump that the command line selects.
pub(super) struct Scope {
    pub(super) dump: Dump,
}

impl Scope {
    /// Reads the dump and restricts it to the selected Gateways.
    ///
    /// # Errors
    /// The dump cannot be read, or has no such Gateway.
    pub(super) fn read(source: &Source, resource: Option<&Resource>) -> Result<Self> {
        Self::of(source.dump(resource)?, source, resource)
    }

    /// The same for every selected pod, with its name.
    ///
    /// # Errors
    ///
    /// As for [`Scope::read`].
    pub(super) fn of_pods(source: &Source, args: &ListArgs) -> Result<Vec<(Option<String>, Self)>> {
        let resource = args.resource.as_ref();
        let dumps = source.dumps(resource, args.all_pods)?.into_iter();
        let scopes = dumps.map(|(pod, dump)| Ok((pod, Self::of(dump, source, resource)?)));
        scopes.collect()
    }

    fn of(dump: Dump, source: &Source, resource: Option<&Resource>) -> Result<Self> {
        Ok(match source.gateways(&dump.binds, resource)? {
            Some(gateways) => Self {
                dump: restrict(dump, &gateways),
            },
            None => Self { dump },
        })
    }
}

/// Removes everything that does not belong to the Gateways.
pub(crate) fn restrict(mut dump: Dump, gateways: &BTreeSet<String>) -> Dump {
    dump.binds.retain(|bind| gateways.contains(&bind.gateway));
    dump.listeners
        .retain(|listener| gateways.contains(&listener.gateway));
    let listeners: BTreeSet<&str> = dump.listeners.iter().map(|it| it.key.as_str()).collect();
    dump.routes
        .retain(|route| listeners.contains(route.listener.as_str()));
    let targets = targets(&dump.routes);
    dump.services
        .retain(|service| targets.contains(&service.key));
    dump.backends
        .retain(|backend| targets.contains(&backend.key));
    let services: BTreeSet<&str> = dump.services.iter().map(|it| it.key.as_str()).collect();
    dump.workloads.retain(|workload| {
        workload
            .serves
            .iter()
            .any(|it| services.contains(it.service.as_str()))
    });
    let routes: BTreeSet<String> = dump
        .routes
        .iter()
        .map(|route| Key::parse(&route.key).object())
        .collect();
    if let Some(runtime) = &mut dump.runtime {
        let binds: BTreeSet<&str> = dump.binds.iter().map(|it| it.key.as_str()).collect();
        runtime
            .binds_down
            .retain(|down| binds.contains(down.bind.as_str()));
    }
    dump.certificates.retain(|certificate| {
        let mut users = certificate.used_by.iter();
        users.any(|user| listeners.contains(user.as_str()) || targets.contains(user))
    });
    dump.policies.retain(|policy| match &policy.target {
        PolicyTarget::Gateway { gateway } => gateways.contains(gateway),
        PolicyTarget::ListenerSet { listener_set } => {
            let prefix = format!("ListenerSet/{listener_set}/");
            listeners.iter().any(|key| key.starts_with(&prefix))
        }
        PolicyTarget::Listener { listener } => listeners.contains(listener.as_str()),
        PolicyTarget::Route { route } | PolicyTarget::Rule { route, .. } => routes.contains(route),
        PolicyTarget::Service { service } => targets.contains(service),
        PolicyTarget::Backend { backend } => targets.contains(backend),
    });
    dump
}

/// Keys of the services and backends that routes reference, mirrors included.
pub(super) fn targets(routes: &[Route]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for route in routes {
        let mirrored = |filters: &Filters| -> Vec<Target> {
            filters
                .mirrors
                .iter()
                .map(|mirror| mirror.target.clone())
                .collect()
        };
        let mut all = mirrored(&route.filters);
        for backend in &route.backends {
            all.push(backend.target.clone());
            all.extend(mirrored(&backend.filters));
        }
        keys.extend(all.into_iter().filter_map(|target| match target {
            Target::Service { service, .. } => Some(service),
            Target::Backend { backend } => Some(backend),
            Target::Invalid { .. } => None,
        }));
    }
    keys
}
