//! Health checks that do not do what they are configured for: what this proxy tells the controller, and shows itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use xds::model::GatewayDuration;

use crate::config::Cluster;
use crate::limits::PROBES_PER_SECOND;

/// Why health checks do not do what they are configured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckLimit {
    /// They are ignored, because too many endpoints fail.
    Ignored,
    /// Intervals are longer, because all probes of the proxy have a limit.
    Stretched,
}

/// The health checks of a service, backend or port that do not do what they are configured for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitedCheck {
    /// The service or backend, as policies name it: `Service/namespace/name`.
    pub object: Arc<str>,
    /// Why.
    pub limit: CheckLimit,
    /// Since when.
    pub since: Instant,
    /// What happens, and why, for people. It stays the same while it lasts, so that statuses do not change all the
    /// time: numbers are in metrics and in the dump.
    pub text: String,
}

/// Those of these clusters; known ones keep their time.
pub(super) fn limited(
    clusters: &[Arc<Cluster>],
    before: &[LimitedCheck],
    now: Instant,
) -> Vec<LimitedCheck> {
    let mut found: BTreeMap<(Arc<str>, CheckLimit, Arc<str>), String> = BTreeMap::new();
    for cluster in clusters {
        let Some(checks) = cluster.health_check.as_deref() else {
            continue;
        };
        let object = &checks.object;
        if checks.endpoints.panics() {
            let (name, percent) = (&cluster.name, checks.check.panic_percent);
            let text = format!(
                "{name}: less than {percent} % of its endpoints pass their health checks, which are ignored, so all \
                 ready endpoints get requests"
            );
            let key = (Arc::clone(object), CheckLimit::Ignored, Arc::clone(name));
            found.insert(key, text);
        }
        if checks.counts.stretched().is_some() {
            let interval = GatewayDuration(checks.check.interval);
            let text = format!(
                "{object}: its endpoints are probed less often than every {interval}, since the health checks of all \
                 services need more than {PROBES_PER_SECOND} probes per second"
            );
            // The interval is that of the object.
            let key = (
                Arc::clone(object),
                CheckLimit::Stretched,
                Arc::clone(object),
            );
            found.insert(key, text);
        }
    }
    let limited = found.into_iter().map(|((object, limit, _), text)| {
        let is_same = |it: &&LimitedCheck| it.limit == limit && it.text == text;
        let known = before.iter().find(is_same);
        LimitedCheck {
            object,
            limit,
            since: known.map_or(now, |known| known.since),
            text,
        }
    });
    limited.collect()
}
