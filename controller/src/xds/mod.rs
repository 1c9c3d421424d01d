//! The xDS server in a cluster: its certificate, the authorization of proxies, and their
//! acknowledgements.
//!
//! - `certificates` reads the certificate authority from a Secret, or creates one, and signs a
//!   server certificate that is replaced without a restart; `rotation` decides when another authority
//!   signs.
//! - `authorize` has the API server review a proxy's token, and `account` maps it to a Gateway;
//!   `keys` verify tokens while the API server is unavailable.
//! - `zones` knows in which zone the node of a proxy is, which the proxy is told when its stream begins.
//! - `acknowledgements` reports to the status writer what proxies have applied and rejected,
//!   including those of other `replicas`, which publish it in a `report`.

pub mod account;
mod acknowledgements;
mod authority;
mod authority_report;
mod authorize;
mod certificates;
mod keys;
mod listen;
mod measures;
mod replicas;
mod report;
mod rotation;
mod token;
mod zones;

use std::sync::Arc;

use tokio::net::TcpListener;
use tracing::info;
use xds_grpc::server::{Limits, Server, Transport};

use crate::args::XdsMode;
use crate::context::Context;
use crate::outputs::Outputs;

use acknowledgements::Reporter;
use authorize::Authorizer;
use certificates::Certificates;
pub use listen::listen;
use measures::Measures;
use replicas::Replicas;

/// The audience of proxies' tokens. The deployer requests it in the projected volume of each proxy.
pub const AUDIENCE: &str = "gateway-system.io/xds";

/// Serves proxies until the shutdown, and lets them finish. With TLS, not before there is a
/// certificate.
pub async fn run(context: Context, listener: TcpListener) {
    let authorizer = Authorizer::new(context.client.clone(), Arc::clone(&context.outputs));
    let authorizer = Arc::new(authorizer);
    let replicas = Arc::new(Replicas::new(&context));
    let measures = Measures::register(&context.metrics);
    let reporter = Arc::new(Reporter::new(measures, Arc::clone(&replicas)));
    let server = Server::new(
        Limits::default(),
        Arc::clone(&context.outputs.published),
        Arc::clone(&authorizer) as _,
        Arc::clone(&reporter) as _,
    );
    let serving = async {
        let mut certificates = Certificates::new(&context);
        let mut stopping = context.stopping.clone();
        let transport = tokio::select! {
            transport = transport(context.args.xds_mode, &mut certificates) => transport,
            () = stopping.stopped() => return,
        };
        info!(address = ?listener.local_addr().ok(), mode = ?context.args.xds_mode, "serving xDS");
        tokio::select! {
            () = Arc::clone(&server).serve(listener, transport) => {}
            () = certificates.follow(), if context.args.xds_mode != XdsMode::Plaintext => {}
        }
    };
    let mut stopping = context.stopping.clone();
    let close = async {
        stopping.stopped().await;
        server.close();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = serving => {}
        () = close => {}
        () = authorizer.follow_keys() => {}
        () = send_away(&server, &context.outputs) => {}
        () = reporter.report(&server, &context.outputs) => {}
        () = replicas.follow(&context.leadership, |gateways| reporter.mark(gateways)) => {}
        () = replicas.report(context.leadership.clone()) => {}
    }
    replicas.withdraw().await;
}

/// Sends proxies to another replica while this one may be outdated: on a stream that stays open they would
/// get nothing of what changes, and the leader would count them as gone.
async fn send_away(server: &Server, outputs: &Outputs) {
    let mut isolated = outputs.isolated.subscribe();
    loop {
        let is_isolated = isolated.borrow_and_update().is_some();
        server.send_away(is_isolated);
        if isolated.changed().await.is_err() {
            // The sender is gone: the state is final.
            return std::future::pending().await;
        }
    }
}

async fn transport(mode: XdsMode, certificates: &mut Certificates) -> Transport {
    match mode {
        XdsMode::Plaintext => Transport::Plaintext,
        XdsMode::Tls => Transport::Tls(certificates.first().await),
        XdsMode::Either => Transport::Either(certificates.first().await),
    }
}

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod tests;
