//! Backends and endpoints by hash, where a policy or a Service says so.

use crate::config::Hashed;
use crate::exchange::choice::draw;
use crate::exchange::{Destination, Exchange, Matched};
use crate::failure::{Failure, FailureKind};
use crate::observe::hashes::HashResult;
use crate::policy::effective_fields::PolicyView;
use crate::policy::hash_key::{HashKeys, RequestKey};

impl<'a> Exchange<'a> {
    /// One destination: by weight, and for the same key always the same where all of them are hashed by it.
    pub(super) fn draw_destination(
        &mut self,
        matched: &Matched<'a>,
    ) -> Result<Destination<'a>, Failure> {
        let rule = matched.rule;
        let extras = rule.extras.as_deref();
        let keys = extras.and_then(|extras| extras.hashed_draw.as_deref());
        let key = keys.and_then(|keys| self.hash_key(keys, matched));
        let trace = self.record.trace.as_deref();
        let backends = (&rule.draw, &*rule.backends);
        let drawn = draw(self.shard, backends, key.map(|(key, _)| key), trace);
        let (backend, index) = drawn.map_err(|failure| self.without_backend(rule, failure))?;
        let cluster = self.holds.cluster(index);
        let cluster = cluster.ok_or(FailureKind::NoValidBackend)?;
        Ok(Destination { backend, cluster })
    }

    /// Computes by what the endpoint of the request is chosen.
    pub(super) fn hash(&mut self, hashed: &Hashed, matched: &Matched<'a>) {
        let key = self.hash_key(&hashed.keys, matched);
        if let Some(trace) = &self.record.trace {
            trace.hashed(hashed, key);
        }
        if key.is_none() {
            self.shard.counters.hashes.count(HashResult::NoKey);
        }
        self.key = key.map(|(key, _)| key);
    }

    /// The key of the request, and which of those that are hashed it is.
    pub(super) fn hash_key<'k>(
        &mut self,
        keys: &'k HashKeys,
        matched: &Matched<'a>,
    ) -> Option<(RequestKey, &'k str)> {
        let (target, view) = (matched.target, PolicyView::Effective);
        let lines = self.lines_seen(target, |it| it == view && keys.reads_headers());
        // Of host and path there is no hash.
        let subject = self.subject(("", target.path()), view, &lines);
        keys.of_request(&subject, target.query())
    }
}
