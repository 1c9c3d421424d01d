//! All proxies of a Gateway reconnect to a controller that was restarted: what it sends, and what
//! that costs. Proxies that are up to date need nothing.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::settled::settled;
use crate::control_plane::context::Context;
use crate::control_plane::meter::Meter;
use crate::control_plane::objects::GATEWAY;
use crate::control_plane::peer::{is_ready, uids};
use crate::control_plane::record::Measured;
use crate::control_plane::serving_gateway::ServingGateway;
use crate::control_plane::usage::{processes, used};
use crate::process::output;
use crate::stats::{count, count64};

/// Timeout for this many proxies to start or to connect.
const TIMEOUT: Duration = Duration::from_mins(15);

/// Time after the last connection, to see whether anything is sent later.
const OBSERVED_AFTER: Duration = Duration::from_secs(5);

pub(super) async fn run(context: &Context<'_>) -> Result<Measured> {
    let replicas = context.sizes.replicas;
    let site = open(context, replicas).await?;
    context
        .cluster
        .create_all(site.routes(context.sizes.attached))
        .await?;
    let before = Controller::find(context, &[]).await?;
    before.until_connected(context, replicas).await?;
    settled(context).await?;

    let meter = Meter::start(context).await?;
    for pod in context.peer.controllers(context.cluster).await? {
        let name = pod.metadata.name.context("a pod has a name")?;
        let pods = context
            .cluster
            .api("v1", "Pod", Some(&context.peer.namespace));
        pods.delete(&name, &kube::api::DeleteParams::default())
            .await?;
    }
    let controller = Controller::find(context, &before.pods).await?;
    let started = Instant::now();
    controller.until_connected(context, replicas).await?;
    let connected = started.elapsed().as_secs_f64();
    context.peer.ready(context.cluster).await?;
    meter.rediscover_pods().await?;
    tokio::time::sleep(OBSERVED_AFTER).await;
    // The first process of its pod may be the sandbox's.
    let (cpu, _) = used(&processes(&controller.pods));
    let sent = controller.sent(context.peer.xds_port)? / count(replicas) / 1e3;
    let mut measured = meter.stop().await?;
    measured.figure("proxies", count(replicas), "");
    measured.figure("routes", count(context.sizes.attached), "");
    measured.figure("all connected after", connected, "s");
    measured.figure("CPU of the controller since its start", cpu, "s");
    measured.figure("sent per proxy, in all", sent, "kB");
    Ok(measured)
}

/// A Gateway with this many proxies.
async fn open(context: &Context<'_>, replicas: usize) -> Result<ServingGateway> {
    let site = ServingGateway::open(context).await?;
    let (cluster, peer) = (context.cluster, context.peer);
    let parameters = peer
        .parameters(&site.namespace, replicas)
        .with_context(|| {
            format!(
                "bench does not know how to set the replicas of {}'s proxies",
                peer.class
            )
        })?;
    cluster.create(&parameters).await?;
    let group = parameters["apiVersion"].as_str().unwrap_or_default();
    let group = group.split('/').next();
    let reference = json!({"group": group, "kind": parameters["kind"],
                           "name": parameters["metadata"]["name"]});
    cluster
        .patch(&json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": GATEWAY, "namespace": site.namespace},
            "spec": {"infrastructure": {"parametersRef": reference}},
        }))
        .await?;
    cluster
        .until("all proxies to be ready", TIMEOUT, async || {
            let pods = peer.proxies(cluster, GATEWAY).await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            Ok((ready >= replicas).then_some(()))
        })
        .await?;
    Ok(site)
}

struct Controller {
    pods: Vec<String>,
    pid: u32,
}

impl Controller {
    /// Waits for the controller of a new pod.
    async fn find(context: &Context<'_>, others: &[String]) -> Result<Self> {
        context
            .cluster
            .until("the controller to start", TIMEOUT, async || {
                let mut pods = uids(&context.peer.controllers(context.cluster).await?);
                pods.retain(|pod| !others.contains(pod));
                let pid = processes(&pods).first().copied();
                Ok(pid.map(|pid| Self { pods, pid }))
            })
            .await
    }

    async fn until_connected(&self, context: &Context<'_>, wanted: usize) -> Result<()> {
        context
            .cluster
            .until("all proxies to be connected", TIMEOUT, async || {
                let connected = self.connections(context.peer.xds_port);
                Ok((connected >= wanted).then_some(()))
            })
            .await
    }

    /// Established connections to a port, in the controller's network.
    fn connections(&self, port: u16) -> usize {
        let files = ["tcp", "tcp6"].map(|name| format!("/proc/{}/net/{name}", self.pid));
        let texts = files
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok());
        texts.map(|text| established(&text, port)).sum()
    }

    /// Bytes that were sent on connections to a port that are established.
    fn sent(&self, port: u16) -> Result<f64> {
        let pid = self.pid.to_string();
        let ports = format!("( sport = :{port} )");
        let words = [
            "-t",
            &pid,
            "-n",
            "ss",
            "-tinH",
            "state",
            "established",
            &ports,
        ];
        Ok(count64(sent(&output("nsenter", &words)?)))
    }
}

/// Of the lines of `/proc/net/tcp`: local address, remote address, state, in hexadecimal digits.
fn established(text: &str, port: u16) -> usize {
    let suffix = format!(":{port:04X}");
    text.lines()
        .filter(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let is_local = fields.next().is_some_and(|it| it.ends_with(&suffix));
            is_local && fields.nth(1) == Some("01")
        })
        .count()
}

/// From the output of `ss` about each connection.
fn sent(text: &str) -> u64 {
    let words = text.split_ascii_whitespace();
    let counts = words.filter_map(|word| word.strip_prefix("bytes_sent:")?.parse::<u64>().ok());
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_established_connections_to_the_port_are_counted() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue\n\
            0: 0100007F:26FA 00000000:0000 0A 00000000:00000000\n\
            1: 0100007F:26FA 0200007F:9C40 01 00000000:00000000\n\
            2: 0100007F:9C40 0200007F:26FA 01 00000000:00000000\n";
        assert_eq!(established(text, 9978), 1);
    }

    #[test]
    fn bytes_that_were_sent_are_summed() {
        let text = "0 0 [::ffff:10.244.0.2]:9978 [::ffff:10.244.0.3]:4000\n\t cubic bytes_sent:700 \
                    bytes_acked:700\n0 0 [::1]:9978 [::1]:4001\n\t cubic bytes_sent:77\n";
        assert_eq!(sent(text), 777);
    }
}
