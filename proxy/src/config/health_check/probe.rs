//! One probe of an endpoint: connects, asks, and says why the answer is none of a healthy endpoint.

use tokio::io::AsyncWriteExt as _;
use xds::model::HealthProbe;

use super::failure::ProbeFailure;
use super::http::{self, Http2Connection};
use super::plan::{ProbeTarget, Security};
use crate::config::socket::{self, Socket};
use crate::policy::proxy_protocol;

/// Asks an endpoint, on a connection of an earlier probe if there is one. Returns the connection for the next one
/// if it is of HTTP/2; any other is closed.
pub(super) async fn run(
    target: &ProbeTarget,
    kept: Option<Http2Connection>,
) -> (Result<(), ProbeFailure>, Option<Http2Connection>) {
    let timeout = target.check.timeout;
    match tokio::time::timeout(timeout, ask(target, kept)).await {
        Ok(Ok(connection)) => (Ok(()), connection),
        Ok(Err(failure)) => (Err(failure), None),
        Err(_) => (Err(ProbeFailure::Late(timeout)), None),
    }
}

async fn ask(
    target: &ProbeTarget,
    kept: Option<Http2Connection>,
) -> Result<Option<Http2Connection>, ProbeFailure> {
    if let HealthProbe::Tcp = target.check.probe {
        connect(target).await?;
        return Ok(None);
    }
    if let Some(mut connection) = kept.filter(Http2Connection::is_open) {
        match http::exchange(&mut connection, target).await {
            // The server may have closed it just now, which says nothing about its health.
            Err(ProbeFailure::Response(_)) => {}
            result => return result.map(|()| Some(connection)),
        }
    }
    let socket = connect(target).await?;
    http::ask(target, socket).await
}

/// A connection to the endpoint, ready for the request.
async fn connect(target: &ProbeTarget) -> Result<Box<dyn Socket>, ProbeFailure> {
    let mut socket = socket::open(&target.address)
        .await
        .map_err(ProbeFailure::Connect)?;
    if let Some(version) = target.proxy_protocol {
        let mut header = Vec::new();
        proxy_protocol::write(version, None, &mut header);
        let written = socket.write_all(&header).await;
        written.map_err(ProbeFailure::Connect)?;
    }
    match &target.security {
        Security::Plain => Ok(socket),
        Security::Tls(config, name) => {
            let secured = socket::secure(socket, config, name).await;
            secured.map_err(ProbeFailure::Tls)
        }
        Security::Unusable => Err(ProbeFailure::UnusableTls),
    }
}
