//! The BackendTLSPolicy of an upstream, or of a section of it: the oldest.

use std::sync::Arc;

use xds::model::{BackendTls, ObjectName};

use crate::backend::upstream::Upstream;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::units::BackendTlsTargetUnit;

impl BackendTlsTargetUnit {
    pub(crate) fn new(upstream: Upstream, section: Option<Arc<str>>) -> Self {
        Self(Arc::new((upstream, section)))
    }
}

impl Unit for BackendTlsTargetUnit {
    /// The policy and its settings.
    type Output = (ObjectName, Arc<BackendTls>);

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Self::Output> {
        let claims = reader.claims.backend_tls.at(&self.0)?;
        let ((_, winner), tls) = claims.first_key_value()?;
        Some((winner.clone(), Arc::clone(tls)))
    }

    fn publish(
        &self,
        _: Option<&Self::Output>,
        new: Option<&Self::Output>,
        changes: &mut Changes<'_>,
    ) {
        let winners = &mut changes.objects.backend_tls;
        match new {
            Some((_, tls)) => winners.insert((*self.0).clone(), Arc::clone(tls)),
            None => winners.remove(&*self.0),
        };
        let (upstream, section) = (*self.0).clone();
        changes.fact(Fact::BackendTls(upstream, section));
    }

    fn is_alive(&self, state: &State) -> bool {
        state.claims.backend_tls.at(&self.0).is_some()
    }
}

impl<'a> UnitReader<'a> {
    /// The policy of an upstream, or of a section of it.
    pub(crate) fn backend_tls_winner(
        &self,
        upstream: &Upstream,
        section: Option<&Arc<str>>,
    ) -> Option<&'a ObjectName> {
        self.depend_on(Fact::BackendTls(upstream.clone(), section.cloned()));
        let unit = BackendTlsTargetUnit::new(upstream.clone(), section.cloned());
        self.tables.get(&unit).map(|(name, _)| name)
    }
}
