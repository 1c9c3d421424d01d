//! Changes of a fleet while something else is measured: half of them of routes, half of endpoints.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use tokio::time::interval;

use super::cluster::Cluster;
use super::fleet::Fleet;

/// Changes this many objects per second while `work` runs. Returns its result, and the number of
/// changes.
pub(crate) async fn during<T>(
    cluster: &Cluster,
    fleet: &Fleet,
    per_second: u32,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, u32)> {
    let changes = Rc::new(Cell::new(0));
    let counter = Rc::clone(&changes);
    let churn = async {
        let mut due = interval(Duration::from_secs(1) / per_second.max(1));
        for state in 1_usize.. {
            due.tick().await;
            // Far apart, so that the changes are spread over all namespaces.
            let number = state * 7_919 % fleet.len().max(1);
            let object = if state % 2 == 0 {
                fleet.route(number, state)
            } else {
                fleet.endpoints(number, state % 5)
            };
            cluster.patch(&object).await?;
            counter.set(counter.get() + 1);
        }
        anyhow::Ok(())
    };
    tokio::select! {
        done = work => Ok((done?, changes.get())),
        failed = churn => Err(failed.err().unwrap_or_else(|| anyhow::anyhow!("the churn ended"))),
    }
}
