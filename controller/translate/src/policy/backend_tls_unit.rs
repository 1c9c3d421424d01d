//! Resolves a BackendTLSPolicy.

use std::sync::Arc;

use xds::model::{BackendTls, ObjectName};

use super::api::BackendTlsPolicy;
use super::backend_tls::ResolvedBackendTls;
use crate::backend::upstream::Upstream;
use crate::engine::claims::Age;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::units::{BackendTlsTargetUnit, BackendTlsUnit};

impl Unit for BackendTlsUnit {
    type Output = ResolvedBackendTls;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<ResolvedBackendTls> {
        let object = reader.object::<BackendTlsPolicy>(&self.0)?;
        Some(ResolvedBackendTls::resolve(reader, &self.0, object))
    }

    fn publish(
        &self,
        old: Option<&ResolvedBackendTls>,
        new: Option<&ResolvedBackendTls>,
        changes: &mut Changes<'_>,
    ) {
        let claims = |output| claims(&self.0, output);
        let changed = changes.claims.backend_tls.replace(claims(old), claims(new));
        for (upstream, section) in changed {
            changes.run(BackendTlsTargetUnit::new(upstream, section));
        }
        changes.fact(Fact::BackendTlsPolicy(self.0.clone()));
    }

    fn is_alive(&self, state: &State) -> bool {
        let policies = &state.objects.store.backend_tls_policies;
        policies.contains_key(&self.0)
    }
}

type Claim = ((Upstream, Option<Arc<str>>), Age, Arc<BackendTls>);

fn claims(name: &ObjectName, policy: Option<&ResolvedBackendTls>) -> impl Iterator<Item = Claim> {
    policy.into_iter().flat_map(move |policy| {
        policy.targets.iter().map(move |target| {
            let key = (target.upstream.clone(), target.section.clone());
            // Any policy that applies comes before one that only closes the target.
            let (created, tls) = if target.is_closed {
                (i64::MAX, Arc::new(BackendTls::Invalid))
            } else {
                (policy.created, Arc::clone(&policy.tls))
            };
            (key, (created, name.clone()), tls)
        })
    })
}

impl<'a> UnitReader<'a> {
    /// A BackendTLSPolicy with its references resolved.
    pub(crate) fn backend_tls_policy(&self, name: &ObjectName) -> Option<&'a ResolvedBackendTls> {
        self.depend_on(Fact::BackendTlsPolicy(name.clone()));
        self.tables.get(&BackendTlsUnit(name.clone()))
    }
}
