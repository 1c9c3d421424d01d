//! Counters by cause of a rejection or failure.

use std::marker::PhantomData;
use std::sync::OnceLock;

use super::counters::Counter;
use crate::names::Cause;

/// A counter for each cause. They are allocated by the first count: most endpoints never have any.
#[derive(Debug)]
pub struct ByCause<C> {
    counters: OnceLock<Box<[Counter]>>,
    causes: PhantomData<C>,
}

impl<C> Default for ByCause<C> {
    fn default() -> Self {
        Self {
            counters: OnceLock::new(),
            causes: PhantomData,
        }
    }
}

impl<C: Cause> ByCause<C> {
    /// Increments the counter of a cause.
    pub fn count(&self, cause: C) {
        let new = || C::EVERY.iter().map(|_| Counter::default()).collect();
        if let Some(counter) = self.counters.get_or_init(new).get(cause.index()) {
            counter.increment();
        }
    }

    /// The count of a cause.
    #[must_use]
    pub fn of(&self, cause: C) -> u64 {
        let counters = self.counters.get();
        let counter = counters.and_then(|counters| counters.get(cause.index()));
        counter.map_or(0, Counter::value)
    }

    /// The causes with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (C, u64)> {
        let causes = C::EVERY.iter();
        causes.map(|cause| (*cause, self.of(*cause)))
    }

    pub(super) fn reset(&self) {
        let counters = self.counters.get().into_iter().flatten();
        counters.for_each(Counter::reset);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ByCause;
    use crate::failure::FailureKind;
    use crate::http::engine::guard::Abuse;
    use crate::names::Cause;
    use crate::observe::handshakes::HandshakeFailure;
    use crate::observe::proxy_headers::ProxyHeaderFailure;
    use crate::observe::shed::ShedCause;
    use crate::policy::api_keys::KeyRefusal;
    use crate::policy::authorization::Forbidden;
    use crate::policy::basic_auth::PasswordRefusal;
    use crate::policy::jwt::Refusal;
    use crate::tls::UpstreamTlsFailure;
    use crate::tls::session::Fault;

    fn each_has_its_own_counter_and_name<C: Cause>() {
        let counters = ByCause::<C>::default();
        for (times, cause) in (1..).zip(C::EVERY) {
            for _ in 0..times {
                counters.count(*cause);
            }
        }
        for (times, (cause, count)) in (1..).zip(counters.iter()) {
            assert_eq!(count, times, "{}", cause.name());
            assert_eq!(counters.of(cause), times, "{}", cause.name());
        }
        let names: BTreeSet<_> = C::EVERY.iter().map(|cause| cause.name()).collect();
        assert_eq!(names.len(), C::EVERY.len());
        counters.reset();
        assert!(counters.iter().all(|(_, count)| count == 0));
    }

    #[test]
    fn causes_are_counted_separately() {
        each_has_its_own_counter_and_name::<FailureKind>();
        each_has_its_own_counter_and_name::<Abuse>();
        each_has_its_own_counter_and_name::<HandshakeFailure>();
        each_has_its_own_counter_and_name::<Fault>();
        each_has_its_own_counter_and_name::<ProxyHeaderFailure>();
        each_has_its_own_counter_and_name::<Refusal>();
        each_has_its_own_counter_and_name::<KeyRefusal>();
        each_has_its_own_counter_and_name::<PasswordRefusal>();
        each_has_its_own_counter_and_name::<ShedCause>();
        each_has_its_own_counter_and_name::<Forbidden>();
        each_has_its_own_counter_and_name::<UpstreamTlsFailure>();
    }
}
