//! Listeners with their rules. Rules that did not change keep their numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use xds::model::{
    self, Hostname, HttpMatch, ListenerKey, ListenerProtocol, Order, Route, RouteKey, RouteRule,
};

use super::CompileOptions;
use super::head::HeadCompiler;
use super::ids::{Ids, Slots};
use super::policy::{Policies, RequestSettings};
use super::rule::{AnyRule, CompiledRule};
use super::servers::Servers;
use super::tls::TlsCompiler;
use crate::config::{
    Accepts, ChunkedEntries, L4Routes, Listener, ListenerSettings, PlacedRule, Rule, TrafficMode,
};
use crate::names::Interned;
use crate::route::{Router, RouterCompiler, Source};

/// All listeners that are on a bind.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    units: HashMap<ListenerKey, Unit>,
    /// Those with rules whose resources were replaced without any effect on them.
    unsettled: BTreeSet<ListenerKey>,
}

/// A compiled listener, and the state that incremental compilation keeps for it.
#[derive(Debug, Default)]
struct Unit {
    /// Boxed: nodes of the map are partly empty.
    rules: BTreeMap<RouteKey, Box<NumberedRule>>,
    /// The rules of requests, by number.
    table: ChunkedEntries<PlacedRule>,
    numbers: Slots,
    router: RouterCompiler<RouteMatch>,
    /// The router and the rules of connections; `None` if they must be rebuilt.
    routing: (Option<Arc<Router>>, Option<Arc<L4Routes>>),
    compiled: Option<Arc<Listener>>,
    /// Authorization servers and pages of the listener; `None` before they are compiled.
    servers: Option<Servers>,
    /// Rules by number whose resources the router's compiler has to replace.
    replaced: HashMap<u32, Placed>,
}

/// A rule with its number in the listener. There are many: its fields have no gaps.
#[derive(Debug)]
struct NumberedRule {
    rule: CompiledRule,
    route: Arc<Route>,
    /// Only of a rule of requests.
    number: u32,
    attachment: u16,
}

impl NumberedRule {
    fn number(&self) -> Option<u32> {
        matches!(self.rule.rule, AnyRule::Http(_)).then_some(self.number)
    }

    fn placed(&self) -> Placed {
        Placed {
            route: Arc::clone(&self.route),
            attachment: self.attachment,
        }
    }
}

/// A rule at a listener.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) route: Arc<Route>,
    /// The place of the listener among its attachments.
    pub(super) attachment: u16,
}

impl Placed {
    fn is_at(&self, route: &Arc<Route>, attachment: u16) -> bool {
        Arc::ptr_eq(&self.route, route) && self.attachment == attachment
    }
}

/// A match of a route's rule, as the router's compiler keeps it.
#[derive(Debug, Clone)]
struct RouteMatch {
    route: Arc<Route>,
    attachment: u16,
    index: u16,
    number: u32,
}

impl RouteMatch {
    /// All matches of a rule.
    fn all(Placed { route, attachment }: &Placed, number: u32) -> impl Iterator<Item = Self> {
        let matches = match &route.rule {
            RouteRule::Http(rule) => rule.matches.len(),
            RouteRule::Tls(_) | RouteRule::Tcp(_) | RouteRule::Udp(_) => 0,
        };
        (0..).take(matches).map(move |index| Self {
            route: Arc::clone(route),
            attachment: *attachment,
            index,
            number,
        })
    }
}

/// The hosts of a route at one of its attachments.
fn hostnames(route: &Route, attachment: u16) -> &[Hostname] {
    let attachment = route.attachments.get(usize::from(attachment));
    attachment.map_or(&[], |it| &it.hostnames)
}

impl Source for RouteMatch {
    fn hostnames(&self) -> &[Hostname] {
        hostnames(&self.route, self.attachment)
    }

    fn matches(&self) -> &HttpMatch {
        let RouteRule::Http(rule) = &self.route.rule else {
            unreachable!("other rules have no matches");
        };
        &rule.matches[usize::from(self.index)]
    }

    fn order(&self) -> Order<'_> {
        self.route.order()
    }

    fn tie_breaker(&self) -> &str {
        self.route.key.as_str()
    }

    fn id(&self) -> (u32, u16) {
        (self.number, self.index)
    }
}

impl Listeners {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty() && self.unsettled.is_empty()
    }

    /// The listener of this key.
    pub(super) fn compiled(&self, key: &ListenerKey) -> Option<&Arc<Listener>> {
        self.units.get(key)?.compiled.as_ref()
    }

    /// Replaces a rule, or removes it. Returns the previous one.
    pub(super) fn set(
        &mut self,
        listener: &ListenerKey,
        key: &RouteKey,
        rule: Option<(Interned, CompiledRule, Placed)>,
    ) -> Option<CompiledRule> {
        let unit = match &rule {
            Some(_) => self.units.entry(listener.clone()).or_default(),
            None => self.units.get_mut(listener)?,
        };
        unit.set(key, rule)
    }

    /// The compiled rule of requests at a listener.
    pub(super) fn rule(&self, listener: &ListenerKey, key: &RouteKey) -> Option<&Arc<Rule>> {
        match &self.units.get(listener)?.rules.get(key)?.rule.rule {
            AnyRule::Http(rule) => Some(rule),
            AnyRule::L4(_) => None,
        }
    }

    /// Replaces the resource of a rule that is as before at a listener, so that nothing keeps the previous one.
    pub(super) fn keep(&mut self, listener: &ListenerKey, key: &RouteKey, placed: Placed) {
        let unit = self.units.get_mut(listener);
        if unit.is_some_and(|unit| unit.keep(key, placed)) && !self.unsettled.contains(listener) {
            self.unsettled.insert(listener.clone());
        }
    }

    /// Completes what [`Listeners::keep`] has begun.
    pub(super) fn settle(&mut self) {
        for listener in std::mem::take(&mut self.unsettled) {
            if let Some(unit) = self.units.get_mut(&listener) {
                unit.settle();
            }
        }
    }

    /// Sets the authorization servers of a listener. Returns the previous ones.
    pub(super) fn set_servers(
        &mut self,
        listener: &ListenerKey,
        servers: Option<Servers>,
    ) -> Option<Servers> {
        let Some(servers) = servers else {
            return self.units.get_mut(listener)?.servers.take();
        };
        let unit = self.units.entry(listener.clone()).or_default();
        unit.servers.replace(servers)
    }

    /// Takes a listener out, with its rules.
    pub(super) fn remove(
        &mut self,
        key: &ListenerKey,
        ids: &mut Ids,
    ) -> Vec<(RouteKey, CompiledRule)> {
        let Some(unit) = self.units.remove(key) else {
            return Vec::new();
        };
        if unit.compiled.is_some() {
            ids.listeners.remove_reference(key);
        }
        let rules = unit.rules.into_iter();
        rules.map(|(key, numbered)| (key, numbered.rule)).collect()
    }
}

/// Compiles listeners from compiled rules.
pub(super) struct ListenerCompiler<'c> {
    pub(super) policies: &'c Policies,
    pub(super) listeners: &'c mut Listeners,
    pub(super) ids: &'c mut Ids,
    pub(super) tls: &'c mut TlsCompiler,
    pub(super) options: &'c CompileOptions,
    pub(super) head: HeadCompiler<'c>,
}

impl ListenerCompiler<'_> {
    pub(super) fn compile(&mut self, listener: &model::Listener) -> Arc<Listener> {
        let key = &listener.key;
        let settings = settings(listener, self.policies, self.options);
        let unit = self.listeners.units.entry(key.clone()).or_default();
        let (router, l4) = unit.find_routing();
        let accepts = match &listener.protocol {
            ListenerProtocol::Https(server) | ListenerProtocol::Tls(server)
                if !server.certificates.is_empty() =>
            {
                let tls = self.tls.listener(key, &listener.gateway, server);
                tls.map_or(Accepts::Nothing, Accepts::Tls)
            }
            protocol => {
                self.tls.forget_listener(key);
                match protocol.tls() {
                    // It keeps its host name from other listeners, whose rules are not its own.
                    Some(_) => Accepts::Nothing,
                    None => Accepts::Plain,
                }
            }
        };
        let id = match &unit.compiled {
            Some(compiled) => compiled.id,
            None => self.ids.listeners.acquire(key),
        };
        let own = ListenerSettings {
            id,
            key: key.clone(),
            hostname: listener.hostname.clone(),
            external_auth: match &unit.servers {
                Some(servers) => Arc::clone(&servers.list),
                None => Arc::default(),
            },
            head_policies: self.head.compile(&settings.enforced),
            access_log: settings.access_log_in_force().clone(),
            error_pages: { unit.servers.as_ref() }.and_then(|servers| servers.pages.clone()),
        };
        let before = unit.compiled.as_ref().map(|it| &it.settings);
        let own = match before.filter(|before| ***before == own) {
            Some(before) => Arc::clone(before),
            None => Arc::new(own),
        };
        let compiled = Arc::new(Listener {
            settings: own,
            traffic: match listener.protocol {
                ListenerProtocol::Http | ListenerProtocol::Https(_) => TrafficMode::Requests,
                _ => TrafficMode::Bytes,
            },
            accepts,
            router,
            rules: unit.table.clone(),
            l4,
        });
        unit.compiled = Some(Arc::clone(&compiled));
        compiled
    }
}

impl Unit {
    /// Replaces the resource of a rule. Returns whether there is something to settle.
    fn keep(&mut self, key: &RouteKey, placed: Placed) -> bool {
        let Some(numbered) = self.rules.get_mut(key) else {
            return false;
        };
        numbered.route = Arc::clone(&placed.route);
        numbered.attachment = placed.attachment;
        let number = numbered.number();
        number.is_some_and(|number| self.replaced.insert(number, placed).is_none())
    }

    fn settle(&mut self) {
        let replaced = std::mem::take(&mut self.replaced);
        if replaced.len() > self.rules.len() / ALL_AT_ONCE {
            return self.router.update(|source| {
                if let Some(placed) = replaced.get(&source.number) {
                    source.route = Arc::clone(&placed.route);
                    source.attachment = placed.attachment;
                }
            });
        }
        for (number, placed) in &replaced {
            RouteMatch::all(placed, *number).for_each(|it| self.router.replace(&it));
        }
    }

    /// Replaces a rule, or removes it. Returns the previous one.
    fn set(
        &mut self,
        key: &RouteKey,
        rule: Option<(Interned, CompiledRule, Placed)>,
    ) -> Option<CompiledRule> {
        let before = self.rules.remove(key);
        let mut number = before.as_ref().and_then(|it| it.number());
        let is_http = |rule: &CompiledRule| matches!(rule.rule, AnyRule::Http(_));
        if before.as_ref().is_some_and(|it| !is_http(&it.rule))
            || rule.as_ref().is_some_and(|(_, rule, _)| !is_http(rule))
        {
            self.routing.1 = None;
        }
        let http = match &rule {
            Some((id, it, _)) => match &it.rule {
                AnyRule::Http(rule) => Some(PlacedRule {
                    id: *id,
                    rule: Arc::clone(rule),
                }),
                AnyRule::L4(_) => None,
            },
            None => None,
        };
        // With the same matches, under the same number, the router stays.
        let is_same = before
            .as_ref()
            .zip(rule.as_ref())
            .is_some_and(|(before, (.., placed))| placed.is_at(&before.route, before.attachment));
        let stays = is_same && http.is_some() && number.is_some();
        if let Some(before) = before.as_ref().filter(|_| !stays)
            && let Some(number) = number
        {
            self.routing.0 = None;
            RouteMatch::all(&before.placed(), number).for_each(|it| self.router.remove(&it));
        }
        if let Some(unused) = number.take_if(|_| http.is_none()) {
            self.table.set(unused as usize, None);
            self.numbers.remove_reference(unused as usize);
        }
        if let Some(http) = http {
            let number = *number.get_or_insert_with(|| {
                let number = self.numbers.take();
                u32::try_from(number).expect("rules are objects that somebody wrote")
            });
            self.table.set(number as usize, Some(http));
        }
        if let Some((_, rule, placed)) = rule {
            if let Some(number) = number.filter(|_| !stays) {
                self.routing.0 = None;
                RouteMatch::all(&placed, number).for_each(|it| self.router.add(&it));
            }
            let numbered = NumberedRule {
                rule,
                route: placed.route,
                number: number.unwrap_or_default(),
                attachment: placed.attachment,
            };
            self.rules.insert(key.clone(), Box::new(numbered));
        }
        before.map(|before| before.rule)
    }

    /// The index that finds its rules.
    fn find_routing(&mut self) -> (Arc<Router>, Arc<L4Routes>) {
        self.numbers.begin();
        let (router, l4) = &mut self.routing;
        let router = router.get_or_insert_with(|| Arc::new(self.router.router()));
        let l4 = l4.get_or_insert_with(|| Arc::new(l4_routes(&self.rules)));
        (Arc::clone(router), Arc::clone(l4))
    }
}

/// The part of a listener's rules from which on they are replaced by going through all.
const ALL_AT_ONCE: usize = 8;

/// The rules of connections: those chosen by server name go before those for all connections, and of
/// equal ones the first by order.
fn l4_routes(rules: &BTreeMap<RouteKey, Box<NumberedRule>>) -> L4Routes {
    let rules = rules.values().filter_map(|it| match &it.rule.rule {
        AnyRule::L4(rule) => Some((it, rule)),
        AnyRule::Http(_) => None,
    });
    let mut rules: Vec<_> = rules.collect();
    rules.sort_by_cached_key(|(numbered, _)| precedence(&numbered.route));
    let mut named = Vec::new();
    for (numbered, rule) in rules {
        let hostnames = hostnames(&numbered.route, numbered.attachment);
        if hostnames.is_empty() {
            named.push((None, Arc::clone(rule)));
        }
        let names = hostnames.iter().map(Some);
        named.extend(names.map(|name| (name, Arc::clone(rule))));
    }
    L4Routes::new(named)
}

fn precedence(route: &Route) -> impl Ord + '_ {
    (!matches!(route.rule, RouteRule::Tls(_)), route.order())
}

/// Settings of Gateway, ListenerSet and listener for requests.
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
