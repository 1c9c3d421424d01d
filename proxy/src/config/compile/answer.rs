//! Answers of the gateway: many rules share a policy, which is compiled once per model.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use xds::model::{ObjectName, Policy, Transport};

use super::rule::policy_name;
use super::targets::Targets;
use crate::config::PagesInForce;
use crate::policy::answer::{ErrorPages, Respond};

/// The answers and pages of the current model, by address in memory of their settings.
#[derive(Debug, Default)]
pub(super) struct Answers {
    responds: HashMap<usize, Weak<Respond>>,
    pages: HashMap<usize, Weak<ErrorPages>>,
}

impl Answers {
    pub(super) fn begin(&mut self) {
        self.responds.clear();
        self.pages.clear();
    }

    /// The compiled answers of these policies of the current model.
    pub(super) fn all_of<'a>(
        &mut self,
        policies: impl IntoIterator<Item = &'a Policy>,
    ) -> Box<[Arc<Respond>]> {
        let policies = policies.into_iter();
        policies.filter_map(|policy| self.of(policy)).collect()
    }

    fn of(&mut self, policy: &Policy) -> Option<Arc<Respond>> {
        let respond = policy.spec.respond.as_ref()?;
        let place = std::ptr::from_ref(respond).addr();
        if let Some(known) = self.responds.get(&place).and_then(Weak::upgrade) {
            return Some(known);
        }
        let compiled = Arc::new(Respond::compile(&policy_name(&policy.key), respond));
        self.responds.insert(place, Arc::downgrade(&compiled));
        Some(compiled)
    }

    /// The pages of a policy of the current model at a Gateway.
    pub(super) fn pages_in_force(
        &mut self,
        policy: &Policy,
        targets: &Targets,
        gateway: &ObjectName,
    ) -> Option<PagesInForce> {
        let servers = policy.spec.page_servers();
        Some(PagesInForce {
            pages: self.pages_of(policy)?,
            servers: servers
                .map(|server| targets.find(server, Transport::Tcp, gateway))
                .collect(),
        })
    }

    /// The compiled pages of a policy of the current model.
    fn pages_of(&mut self, policy: &Policy) -> Option<Arc<ErrorPages>> {
        let pages = policy.spec.error_pages.as_ref()?;
        let place = std::ptr::from_ref(pages).addr();
        if let Some(known) = self.pages.get(&place).and_then(Weak::upgrade) {
            return Some(known);
        }
        let compiled = Arc::new(ErrorPages::compile(&policy_name(&policy.key), pages));
        self.pages.insert(place, Arc::downgrade(&compiled));
        Some(compiled)
    }
}
