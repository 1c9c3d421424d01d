//! Endpoints that have just become ready, where their shares of requests grow.

use std::sync::Arc;
use std::time::Instant;

use xds::model::SlowStart;

use super::health_check::ProbeState;

use crate::names::Interned;

/// Since when endpoints have been ready, as far as this process has seen it.
#[derive(Debug)]
pub struct Warming {
    slow_start: SlowStart,
    /// Sorted by id; `None` for those that were ready before it looked.
    since: Box<[(Interned, Option<Instant>)]>,
    /// What is known of them by probes, in the same order; empty if they are not checked.
    probes: Box<[Option<Arc<ProbeState>>]>,
    /// When all of them have their whole share; `None` if they do already.
    until: Option<Instant>,
    /// When the first of them has its whole share; `None` if one does already.
    from: Option<Instant>,
}

impl Warming {
    /// Of these serving endpoints, each with whether it is another one than those that served before: such begin `now`, and
    /// the others keep the age that they had `before`, or are old.
    pub(super) fn new(
        slow_start: SlowStart,
        serving: impl Iterator<Item = (Interned, bool)>,
        before: Option<&Self>,
        now: Instant,
    ) -> Self {
        let since = serving.map(|(id, is_new)| {
            let since = if is_new {
                Some(now)
            } else {
                before.and_then(|before| before.since(id))
            };
            (id, since)
        });
        let mut since: Box<[_]> = since.collect();
        since.sort_unstable_by_key(|(id, _)| *id);
        let begins = || since.iter().map(|(_, since)| *since);
        let end = |since: Option<Instant>| since.map(|since| since + slow_start.window());
        Self {
            slow_start,
            until: end(begins().flatten().max()),
            from: end(begins().min().flatten()),
            since,
            probes: Box::default(),
        }
    }

    /// The same with health checks.
    pub(super) fn checked(&mut self, state: impl Fn(Interned) -> Option<Arc<ProbeState>>) {
        let states: Box<[_]> = self.since.iter().map(|(id, _)| state(*id)).collect();
        if states.iter().any(Option::is_some) {
            self.probes = states;
        }
    }

    /// When the probes of an endpoint began to succeed again, if they had put it out of service.
    fn recovered(&self, id: Interned) -> Option<Instant> {
        if self.probes.is_empty() {
            return None;
        }
        let at = self.since.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.probes.get(at)?.as_ref()?.recovered()
    }

    fn since(&self, id: Interned) -> Option<Instant> {
        let at = self.since.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.since.get(at)?.1
    }

    /// The part of its share that an endpoint gets at `now`. One that was ejected until `recovered`, or that its health check
    /// has put back into service, begins with half of its window. If all are new, none has to wait for another.
    pub(crate) fn part(&self, id: Interned, recovered: Option<Instant>, now: Instant) -> f64 {
        if self.from.is_some_and(|from| now < from) {
            return 1.0;
        }
        let half = self.slow_start.window() / 2;
        let age = |since: Instant| now.saturating_duration_since(since);
        let recovered = recovered.max(self.recovered(id));
        let recovered = recovered.map(|recovered| half + age(recovered));
        let own = self.until.filter(|until| now < *until);
        let own = own.and_then(|_| self.since(id)).map(age);
        match [own, recovered].into_iter().flatten().min() {
            Some(age) => self.slow_start.share(age),
            None => 1.0,
        }
    }

    /// The part of its share that an endpoint gets, in percent, unless that is all of it.
    #[must_use]
    pub fn percent(&self, id: Interned, now: Instant) -> Option<u8> {
        let part = self.part(id, None, now);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of one, in percent"
        )]
        let percent = (part * 100.0) as u8;
        (part < 1.0).then_some(percent)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use xds::model::{Health, InitialHealth, SlowStart};

    use super::Warming;
    use crate::config::{EndpointIdentity, EndpointRef, EndpointSet, ProbeState, Standing};
    use crate::limits::EJECTION;
    use crate::names::Interned;

    const WINDOW: Duration = Duration::from_secs(100);

    fn id(index: u32) -> Interned {
        Interned {
            index,
            generation: 0,
        }
    }

    /// A set of the endpoints with these numbers.
    fn set(numbers: &[u32], before: Option<&EndpointSet>, now: Instant) -> EndpointSet {
        let slow = SlowStart::new(WINDOW, 10, 100).expect("in range");
        let member = |number: &u32| {
            let endpoint = EndpointRef {
                id: id(*number),
                weight: NonZeroU32::MIN,
            };
            (
                endpoint,
                Health::Ready,
                EndpointIdentity::new("s", &number.to_string()),
            )
        };
        let members: Vec<_> = numbers.iter().map(member).collect();
        EndpointSet::new(id(0), EJECTION, &members).with_slow_start(slow, before, now)
    }

    /// The parts of the shares of these endpoints, in percent.
    fn parts(set: &EndpointSet, numbers: &[u32], now: Instant) -> String {
        let warming: &Warming = set.warming().expect("it warms up");
        let part = |number: &u32| warming.part(id(*number), None, now) * 100.0;
        let parts: Vec<_> = numbers
            .iter()
            .map(|it| format!("{:.0}", part(it)))
            .collect();
        parts.join(" ")
    }

    #[test]
    fn only_endpoints_that_come_later_are_new() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let first = set(&[1, 2], None, begun);
        assert_eq!(parts(&first, &[1, 2], begun), "100 100");
        let second = set(&[1, 2, 3], Some(&first), begun);
        assert_eq!(parts(&second, &[1, 3], at(0)), "100 10");
        assert_eq!(parts(&second, &[1, 3], at(50)), "100 50");
        // Another change keeps ages.
        let third = set(&[1, 3, 4], Some(&second), at(50));
        assert_eq!(parts(&third, &[1, 3, 4], at(50)), "100 50 10");
        assert_eq!(parts(&third, &[1, 3, 4], at(100)), "100 100 50");
        assert_eq!(parts(&third, &[1, 3, 4], at(150)), "100 100 100");
    }

    #[test]
    fn if_all_are_new_none_waits_for_another() {
        let begun = Instant::now();
        let none = set(&[], None, begun);
        let all = set(&[1, 2], Some(&none), begun);
        assert_eq!(parts(&all, &[1, 2], begun), "100 100");
        // Until the first of them is warm.
        let later = set(&[1, 2, 3], Some(&all), begun + WINDOW / 2);
        assert_eq!(parts(&later, &[3], begun + WINDOW / 2), "100");
        assert_eq!(parts(&later, &[1, 3], begun + WINDOW), "100 50");
    }

    #[test]
    fn one_that_its_health_check_puts_back_begins_with_half() {
        let begun = Instant::now();
        let mut set = set(&[1, 2], None, begun);
        let state = Arc::new(ProbeState::new(InitialHealth::Healthy));
        set.warm_up_after_checks(|it| (it == id(1)).then(|| Arc::clone(&state)));
        let percents = |now| {
            let warming = set.warming().expect("it warms up");
            [1, 2].map(|number| warming.percent(id(number), now))
        };
        state.set_standing(Standing::Healthy);
        assert_eq!(percents(Instant::now()), [None, None], "it was never out");
        state.set_standing(Standing::Unhealthy);
        state.set_standing(Standing::Healthy);
        let back = state.recovered().expect("it is back");
        assert_eq!(percents(back), [Some(50), None]);
        assert_eq!(percents(back + WINDOW / 4), [Some(75), None]);
        assert_eq!(percents(back + WINDOW / 2), [None, None]);
    }

    #[test]
    fn one_that_recovers_begins_with_half() {
        let begun = Instant::now();
        let set = set(&[1, 2], None, begun);
        let warming = set.warming().expect("it warms up");
        let part = |age| warming.part(id(1), Some(begun), begun + WINDOW * age / 100);
        let parts = [0, 25, 50].map(|age| format!("{:.2}", part(age)));
        assert_eq!(parts, ["0.50", "0.75", "1.00"]);
    }
}
