//! Waits until an implementation is idle.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::control_plane::context::Context;
use crate::control_plane::writes;

/// How long there may be no write before it counts as settled.
const QUIET: Duration = Duration::from_secs(5);

/// How long it may take.
const TIMEOUT: Duration = Duration::from_mins(20);

/// Waits until no status has been written for a while, and returns when the last was.
pub(super) async fn settled(context: &Context<'_>) -> Result<Instant> {
    let client = &context.cluster.client;
    let mut last = (Instant::now(), writes::count(client).await?);
    context
        .cluster
        .until("statuses to be written", TIMEOUT, async || {
            tokio::time::sleep(Duration::from_millis(400)).await;
            let now = writes::count(client).await?;
            // Events of other components occur at any time.
            let statuses = |of: &std::collections::BTreeMap<String, f64>| -> f64 {
                let all = of.iter().filter(|(name, _)| name.ends_with("/status"));
                all.map(|(_, count)| count).sum()
            };
            if (statuses(&now) - statuses(&last.1)).abs() > 0.5 {
                last = (Instant::now(), now);
            }
            Ok((last.0.elapsed() > QUIET).then_some(last.0))
        })
        .await
}
