//! The BackendTLSPolicy of an upstream, or of a section of it: the oldest.

use std::sync::Arc;

use xds::model::{BackendTls, ObjectName};

use crate::reader::Fact;
use crate::translator::unit::{Changes, State, Unit, UnitReader};
use crate::upstream::Upstream;

/// An upstream, or a section of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BackendTlsTargetUnit(pub(crate) Upstream, pub(crate) Option<Arc<str>>);

impl Unit for BackendTlsTargetUnit {
    /// The policy and its settings.
    type Output = (ObjectName, Arc<BackendTls>);

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Self::Output> {
        let key = (self.0.clone(), self.1.clone());
        let claims = reader.claims.backend_tls.at(&key)?;
        let ((_, winner), tls) = claims.first_key_value()?;
        Some((winner.clone(), Arc::clone(tls)))
    }

    fn publish(
        &self,
        _: Option<&Self::Output>,
        new: Option<&Self::Output>,
        changes: &mut Changes<'_>,
    ) {
        let Self(upstream, section) = self.clone();
        let winners = &mut changes.objects.backend_tls;
        let key = (upstream.clone(), section.clone());
        match new {
            Some((_, tls)) => winners.insert(key, Arc::clone(tls)),
            None => winners.remove(&key),
        };
        changes.fact(Fact::BackendTls(upstream, section));
    }

    fn is_alive(&self, state: &State) -> bool {
        let key = (self.0.clone(), self.1.clone());
        state.claims.backend_tls.at(&key).is_some()
    }
}

impl<'a> UnitReader<'a> {
    /// The policy of an upstream, or of a section of it.
    pub(super) fn backend_tls_winner(
        &self,
        upstream: &Upstream,
        section: Option<&Arc<str>>,
    ) -> Option<&'a ObjectName> {
        let unit = BackendTlsTargetUnit(upstream.clone(), section.cloned());
        self.depend_on(Fact::BackendTls(unit.0.clone(), unit.1.clone()));
        self.tables
            .backend_tls_targets
            .get(&unit)
            .map(|(name, _)| name)
    }
}
