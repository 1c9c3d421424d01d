//! Listeners with their rules, from one configuration to the next: rules that did not change are
//! kept, and keep their numbers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use xds::model::{
    self, HttpRule, ListenerKey, ListenerProtocol, Model, Route, RouteKey, RouteRule,
};

use super::CompileOptions;
use super::ids::{Ids, Slots};
use super::policy::{Policies, RequestSettings};
use super::rule::{AnyRule, CompiledRule};
use super::tls::TlsCompiler;
use crate::config::{Accepts, Carries, Chunked, L4Routes, Listener, Rule};
use crate::route::{Entry, Router};

/// All listeners that are on a bind.
#[derive(Debug, Default)]
pub(super) struct Listeners(HashMap<ListenerKey, Unit>);

/// A listener that was compiled, and what of it stays.
#[derive(Debug, Default)]
struct Unit {
    rules: BTreeMap<RouteKey, Numbered>,
    /// The rules of requests, by number.
    table: Chunked<Rule>,
    numbers: Slots,
    /// What finds rules of requests, and of connections; none where it is to be made again.
    found_by: Option<(Arc<Router>, Arc<L4Routes>)>,
    compiled: Option<Arc<Listener>>,
}

/// A rule; one of requests with its number in the listener.
#[derive(Debug)]
struct Numbered {
    rule: CompiledRule,
    number: Option<usize>,
}

impl Listeners {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The listener of this key.
    pub(super) fn compiled(&self, key: &ListenerKey) -> Option<&Arc<Listener>> {
        self.0.get(key)?.compiled.as_ref()
    }

    /// Puts a rule in place of its earlier form, or takes it out. Returns the earlier one.
    pub(super) fn set(
        &mut self,
        listener: &ListenerKey,
        key: &RouteKey,
        rule: Option<CompiledRule>,
    ) -> Option<CompiledRule> {
        let unit = match &rule {
            Some(_) => self.0.entry(listener.clone()).or_default(),
            None => self.0.get_mut(listener)?,
        };
        unit.found_by = None;
        let before = unit.rules.remove(key);
        let (mut number, before) = match before {
            Some(Numbered { rule, number }) => (number, Some(rule)),
            None => (None, None),
        };
        let http = match rule.as_ref().map(|it| &it.rule) {
            Some(AnyRule::Http(rule)) => Some(Arc::clone(rule)),
            _ => None,
        };
        if let Some(unused) = number.take_if(|_| http.is_none()) {
            unit.table.set(unused, None);
            unit.numbers.give_back(unused);
        }
        if http.is_some() {
            let number = *number.get_or_insert_with(|| unit.numbers.take());
            unit.table.set(number, http);
        }
        if let Some(rule) = rule {
            unit.rules.insert(key.clone(), Numbered { rule, number });
        }
        before
    }

    /// Takes a listener out, with its rules.
    pub(super) fn remove(
        &mut self,
        key: &ListenerKey,
        ids: &mut Ids,
    ) -> Vec<(RouteKey, CompiledRule)> {
        let Some(unit) = self.0.remove(key) else {
            return Vec::new();
        };
        if unit.compiled.is_some() {
            ids.listeners.give_back(key);
        }
        let rules = unit.rules.into_iter();
        rules.map(|(key, numbered)| (key, numbered.rule)).collect()
    }
}

/// Compiles listeners, whose rules are compiled already.
pub(super) struct ListenerCompiler<'c> {
    pub(super) model: &'c Model,
    pub(super) policies: &'c Policies,
    pub(super) listeners: &'c mut Listeners,
    pub(super) ids: &'c mut Ids,
    pub(super) tls: &'c mut TlsCompiler,
    pub(super) options: &'c CompileOptions,
}

impl ListenerCompiler<'_> {
    pub(super) fn compile(&mut self, listener: &model::Listener) -> Arc<Listener> {
        let key = &listener.key;
        let settings = settings(listener, self.policies, self.options);
        let unit = self.listeners.0.entry(key.clone()).or_default();
        let (router, l4) = unit.found_by(self.model);
        let accepts = match &listener.protocol {
            ListenerProtocol::Https(server) | ListenerProtocol::Tls(server) => {
                let tls = self.tls.listener(key, &listener.gateway, server);
                tls.map_or(Accepts::Nothing, Accepts::Tls)
            }
            _ => {
                self.tls.forget_listener(key);
                Accepts::Plain
            }
        };
        let id = match &unit.compiled {
            Some(compiled) => compiled.id,
            None => self.ids.listeners.acquire(key),
        };
        let compiled = Arc::new(Listener {
            id,
            key: key.clone(),
            hostname: listener.hostname.clone(),
            carries: match listener.protocol {
                ListenerProtocol::Http | ListenerProtocol::Https(_) => Carries::Requests,
                _ => Carries::Bytes,
            },
            accepts,
            router,
            rules: unit.table.clone(),
            l4,
            access_log: settings.access_log,
        });
        unit.compiled = Some(Arc::clone(&compiled));
        compiled
    }
}

impl Unit {
    /// What finds its rules.
    fn found_by(&mut self, model: &Model) -> (Arc<Router>, Arc<L4Routes>) {
        if let Some((router, l4)) = &self.found_by {
            return (Arc::clone(router), Arc::clone(l4));
        }
        self.numbers.begin();
        let routes = self.rules.iter();
        let routes = routes.filter_map(|(key, it)| Some((&**model.routes.get(key)?, it)));
        let http = routes.clone().filter_map(|(route, it)| match &route.rule {
            RouteRule::Http(rule) => Some((route, rule, it.number?)),
            _ => None,
        });
        let router = Arc::new(Router::compile(entries(http)));
        let mut l4: Vec<_> = routes
            .filter_map(|(route, it)| match &it.rule.rule {
                AnyRule::L4(rule) => Some((route, rule)),
                AnyRule::Http(_) => None,
            })
            .collect();
        // Those chosen by server name go before those for all connections, and of equal ones the
        // first by order.
        l4.sort_by_key(|(route, _)| (!matches!(route.rule, RouteRule::Tls(_)), &route.order));
        let mut named = Vec::new();
        for (route, rule) in l4 {
            if route.hostnames.is_empty() {
                named.push((None, Arc::clone(rule)));
            }
            let names = route.hostnames.iter().map(Some);
            named.extend(names.map(|name| (name, Arc::clone(rule))));
        }
        let l4 = Arc::new(L4Routes::new(named));
        self.found_by = Some((Arc::clone(&router), Arc::clone(&l4)));
        (router, l4)
    }
}

/// What Gateway, ListenerSet and listener say of requests.
pub(super) fn settings<'a>(
    listener: &model::Listener,
    policies: &'a Policies,
    options: &CompileOptions,
) -> RequestSettings<'a> {
    let [set, own] = policies.of_listener(&listener.key);
    RequestSettings::new(options)
        .with(policies.of_gateway(&listener.gateway))
        .with(set)
        .with(own)
}

/// Every match of every route, which goes by its number.
fn entries<'a>(
    routes: impl Iterator<Item = (&'a Route, &'a HttpRule, usize)>,
) -> impl Iterator<Item = Entry<'a>> {
    routes.flat_map(|(route, rule, number)| {
        let number = u32::try_from(number).expect("rules are objects that somebody wrote");
        let matches = (0..).zip(&rule.matches);
        matches.map(move |(match_index, matches)| Entry {
            hostnames: &route.hostnames,
            matches,
            order: &route.order,
            match_index,
            route: number,
        })
    })
}
