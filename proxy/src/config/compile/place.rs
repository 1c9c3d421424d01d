//! Places rules at their listeners. A rule is compiled once for all listeners with equal settings, which share
//! the result.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use xds::fast_hash::FastHashMap;
use xds::model::{self, Attachment, ListenerKey, Model, Route, RouteKey, RouteRule};

use super::answer::Answers;
use super::authorization::Authorizations;
use super::credentials::CredentialTables;
use super::dirty::{Affected, Dirty, DirtyRule};
use super::hash::HashSettings;
use super::ids::{Ids, PlacedKey};
use super::jwt::Authenticators;
use super::listener::{self, Listeners, Placed};
use super::networks::SharedNetworks;
use super::policy::{Policies, RequestSettings};
use super::rate_limit::RateLimiters;
use super::rule::{AnyRule, CompiledRule, LastSettings, RuleCompiler};
use super::servers::Servers;
use super::targets::{ClusterUsers, Targets};
use super::tls::TlsCompiler;
use super::{CompileOptions, PlacedCluster};
use crate::config::{ClusterIndex, Rule};
use crate::names::Interned;

/// Places the rules of a change.
pub(super) struct RulePlacer<'c> {
    pub(super) model: &'c Model,
    pub(super) policies: &'c Policies,
    pub(super) targets: &'c Targets,
    pub(super) options: &'c CompileOptions,
    pub(super) known_clusters: &'c HashMap<usize, Box<PlacedCluster>>,
    pub(super) listeners: &'c mut Listeners,
    pub(super) ids: &'c mut Ids,
    pub(super) users: &'c mut ClusterUsers,
    pub(super) jwt: &'c mut Authenticators,
    pub(super) credentials: &'c mut CredentialTables,
    pub(super) authorization: &'c mut Authorizations,
    pub(super) networks: &'c mut SharedNetworks,
    pub(super) rate_limits: &'c mut RateLimiters,
    pub(super) answers: &'c mut Answers,
    pub(super) last: &'c mut LastSettings,
    pub(super) tls: &'c mut TlsCompiler,
    /// The clusters to compile.
    pub(super) clusters: &'c mut BTreeSet<usize>,
    /// The listeners so far, with their settings; `None` for those that do not exist or have no bind.
    pub(super) found: FastHashMap<ListenerKey, Option<ListenerInUse<'c>>>,
}

/// A listener with the settings of its Gateway, its ListenerSet and itself.
#[derive(Clone)]
pub(super) struct ListenerInUse<'c> {
    listener: &'c model::Listener,
    settings: RequestSettings<'c>,
}

/// A compiled rule, and what it was compiled for.
struct Variant<'c> {
    gateway: &'c model::ObjectName,
    settings: RequestSettings<'c>,
    rule: Arc<Rule>,
}

impl<'c> RulePlacer<'c> {
    /// Places what is dirty, and marks the listeners where that changed something.
    pub(super) fn place_all(&mut self, dirty: &mut Dirty) {
        for key in std::mem::take(&mut dirty.changed_listeners) {
            if let Some(found) = self.find(&key) {
                let pages = found.settings.error_pages_in_force().and_then(|policy| {
                    let gateway = &found.listener.gateway;
                    self.answers.pages_in_force(policy, self.targets, gateway)
                });
                let servers = Servers::compile(found.listener, self.targets, pages);
                self.set_servers(&key, Some(servers));
            } else {
                self.tls.forget_listener(&key);
                self.set_servers(&key, None);
                for (route, rule) in self.listeners.remove(&key, self.ids) {
                    self.remove_reference(&route, &key, rule);
                }
            }
            dirty.listeners.insert(key);
        }
        for (listener, route) in std::mem::take(&mut dirty.detached) {
            if let Some(before) = self.listeners.set(&listener, &route, None) {
                self.remove_reference(&route, &listener, before);
            }
            dirty.listeners.insert(listener);
        }
        for (key, dirty_rule) in std::mem::take(&mut dirty.rules) {
            if let Some(route) = self.model.routes.get(&key) {
                self.place((&key, route), &dirty_rule, &mut dirty.listeners);
            }
        }
        self.listeners.settle();
    }

    /// Places a rule at the listeners where it has to be compiled again.
    fn place(
        &mut self,
        (key, route): (&RouteKey, &'c Arc<Route>),
        DirtyRule { at, is_replaced }: &DirtyRule,
        changed: &mut BTreeSet<ListenerKey>,
    ) {
        let mut variants = Vec::new();
        // The wire form has no more attachments.
        for (number, attachment) in (0..=u16::MAX).zip(route.attachments.iter()) {
            if !at.has(&attachment.listener) {
                if *is_replaced {
                    let placed = Placed {
                        route: Arc::clone(route),
                        attachment: number,
                    };
                    self.listeners.keep(&attachment.listener, key, placed);
                }
                continue;
            }
            let Some(found) = self.find(&attachment.listener) else {
                continue;
            };
            let id = self.ids.rules.acquire(&PlacedKey {
                route: key.clone(),
                listener: attachment.listener.clone(),
            });
            let compiled = self.compile((id, route, attachment), (found, at), &mut variants);
            let used = compiled.count_references(self.users);
            self.add_users(used, compiled.gateway());
            let placed = Placed {
                route: Arc::clone(route),
                attachment: number,
            };
            let before =
                self.listeners
                    .set(&attachment.listener, key, Some((id, compiled, placed)));
            if let Some(before) = before {
                self.remove_reference(key, &attachment.listener, before);
            }
            if !changed.contains(&attachment.listener) {
                changed.insert(attachment.listener.clone());
            }
        }
    }

    /// The rule at a listener: one of those that were compiled for other listeners, if one has the same
    /// settings.
    fn compile(
        &mut self,
        (id, route, attachment): (Interned, &'c Route, &Attachment),
        (ListenerInUse { listener, settings }, affected): (ListenerInUse<'c>, &Affected),
        variants: &mut Vec<Variant<'c>>,
    ) -> CompiledRule {
        let (gateway, settings) = (&listener.gateway, self.policies.of_rule(route, settings));
        if !variants.iter().any(|it| it.is_for(gateway, &settings)) {
            variants.extend(self.compiled_before(route, affected, gateway, &settings));
        }
        let mut compiler = RuleCompiler {
            policies: self.policies,
            targets: self.targets,
            hash: HashSettings {
                model: self.model,
                policies: self.policies,
            },
            gateway,
            settings: &settings,
            jwt: self.jwt,
            credentials: self.credentials,
            authorization: self.authorization,
            networks: self.networks,
            rate_limits: self.rate_limits,
            answers: self.answers,
            shards: self.options.shards,
            last: self.last,
        };
        let rule = match &route.rule {
            RouteRule::Http(http) => {
                let same = variants.iter().find(|it| it.is_for(gateway, &settings));
                let rule = if let Some(same) = same {
                    if let Some(authenticator) = same.rule.authenticator() {
                        self.jwt.add_reference(authenticator);
                    }
                    Arc::clone(&same.rule)
                } else {
                    Arc::new(compiler.http_rule(route, http))
                };
                if same.is_none() && route.attachments.len() > 1 {
                    let rule = Arc::clone(&rule);
                    variants.push(Variant {
                        gateway,
                        settings,
                        rule,
                    });
                }
                AnyRule::Http(rule)
            }
            RouteRule::Tls(rule) | RouteRule::Tcp(rule) | RouteRule::Udp(rule) => {
                let rule = compiler.l4_rule(route, &attachment.listener, id, rule);
                AnyRule::L4(Arc::new(rule))
            }
        };
        CompiledRule::new(rule, gateway.clone())
    }

    /// A rule as it was compiled for a listener with the same settings, where it is as before.
    fn compiled_before(
        &mut self,
        route: &Route,
        affected: &Affected,
        gateway: &'c model::ObjectName,
        settings: &RequestSettings<'c>,
    ) -> Option<Variant<'c>> {
        if matches!(affected, Affected::All) {
            return None;
        }
        let attachments = route.attachments.iter().map(|it| &it.listener);
        let mut others = attachments.filter(|listener| !affected.has(listener));
        others.find_map(|key| {
            let found = self.find(key)?;
            let others = self.policies.of_rule(route, found.settings);
            let is_same = found.listener.gateway == *gateway && others.is_same(settings);
            let rule = is_same.then(|| self.listeners.rule(key, &route.key))??;
            Some(Variant {
                gateway,
                settings: others,
                rule: Arc::clone(rule),
            })
        })
    }

    /// A listener that exists and has a bind.
    fn find(&mut self, key: &ListenerKey) -> Option<ListenerInUse<'c>> {
        if let Some(found) = self.found.get(key) {
            return found.clone();
        }
        let listener = self.model.listeners.get(key);
        let listener = listener.filter(|it| self.model.binds.contains_key(&it.bind));
        let found = listener.map(|listener| ListenerInUse {
            settings: listener::settings(listener, self.policies, self.options),
            listener,
        });
        self.found.insert(key.clone(), found.clone());
        found
    }

    /// Replaces the authorization servers and pages of a listener.
    fn set_servers(&mut self, listener: &ListenerKey, servers: Option<Servers>) {
        if let Some(servers) = &servers {
            let used = servers.count_references(self.users);
            self.add_users(used, &servers.gateway);
        }
        if let Some(before) = self.listeners.set_servers(listener, servers) {
            let gateway = before.gateway.clone();
            let left = before.remove_reference(self.users);
            self.add_users(left, &gateway);
        }
    }

    fn remove_reference(&mut self, route: &RouteKey, listener: &ListenerKey, rule: CompiledRule) {
        let placed = PlacedKey {
            route: route.clone(),
            listener: listener.clone(),
        };
        let gateway = rule.gateway().clone();
        let left = rule.remove_reference(&placed, self.ids, self.jwt, self.users);
        self.add_users(left, &gateway);
    }

    /// If a Gateway has a policy, the clusters that it starts or stops using have to be compiled
    /// again.
    fn add_users(&mut self, used: Vec<ClusterIndex>, gateway: &model::ObjectName) {
        if !self.policies.of_gateway(gateway).is_empty() {
            let used = used.into_iter().map(|cluster| cluster.0);
            let known = self.known_clusters;
            self.clusters
                .extend(used.filter(|index| known.contains_key(index)));
        }
    }
}

impl Variant<'_> {
    fn is_for(&self, gateway: &model::ObjectName, settings: &RequestSettings<'_>) -> bool {
        self.gateway == gateway && self.settings.is_same(settings)
    }
}
