//! The cost of a case while it runs: CPU time and memory of controller and proxies, writes to the
//! API server, and other load of the machine.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;

use super::context::Context;
use super::objects::GATEWAY;
use super::peer::uids;
use super::record::Measured;
use super::usage::Sampler;
use super::writes;
use crate::procfs::Machine;

/// A measurement in progress.
pub(crate) struct Meter<'a> {
    context: &'a Context<'a>,
    sampler: Sampler,
    writes: BTreeMap<String, f64>,
    machine: Machine,
    pub(crate) began: Instant,
}

impl<'a> Meter<'a> {
    pub(crate) async fn start(context: &'a Context<'a>) -> Result<Self> {
        let (controller, proxies) = pods(context).await?;
        Ok(Self {
            context,
            sampler: Sampler::start(&controller, &proxies),
            writes: writes::count(&context.cluster.client).await?,
            machine: Machine::now()?,
            began: Instant::now(),
        })
    }

    /// The controller or proxies have been replaced.
    pub(crate) async fn rediscover_pods(&self) -> Result<()> {
        let (controller, proxies) = pods(self.context).await?;
        self.sampler.watch(&controller, &proxies);
        Ok(())
    }

    /// Seconds since it began.
    pub(crate) fn at(&self, time: Instant) -> f64 {
        time.saturating_duration_since(self.began).as_secs_f64()
    }

    /// Ends it, without figures yet.
    pub(crate) async fn stop(self) -> Result<Measured> {
        let now = writes::count(&self.context.cluster.client).await?;
        let (busy, _) = Machine::now()?.shares_since(&self.machine, 0);
        let seconds = self.began.elapsed().as_secs_f64();
        let [controller, proxies] = self.sampler.stop()?;
        Ok(Measured {
            seconds,
            writes: writes::since(&now, &self.writes),
            machine_busy: busy,
            controller,
            proxies,
            ..Measured::default()
        })
    }
}

async fn pods(context: &Context<'_>) -> Result<(Vec<String>, Vec<String>)> {
    let (peer, cluster) = (context.peer, context.cluster);
    let controller = uids(&peer.controllers(cluster).await?);
    let proxies = uids(&peer.proxies(cluster, GATEWAY).await?);
    Ok((controller, proxies))
}
