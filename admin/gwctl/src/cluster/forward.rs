//! Connections to a port of a pod, as `kubectl port-forward` makes them: through the API server, to the
//! pod's loopback address.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::client::UpgradeConnectionError;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::time::timeout;

use super::refusal::root;

/// A port of a pod.
#[derive(Clone)]
pub(crate) struct PodPort {
    pub(super) pods: Api<Pod>,
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) port: u16,
}

impl PodPort {
    /// Another port of the same pod.
    pub(crate) fn with_port(&self, port: u16) -> Self {
        Self {
            port,
            ..self.clone()
        }
    }

    /// Opens a connection. Whether something listens on the port shows only in its use.
    ///
    /// # Errors
    /// The API server does not forward to this pod.
    pub(crate) async fn open(&self) -> Result<ForwardedConnection> {
        let opened = self.pods.portforward(&self.pod, &[self.port]).await;
        let mut forwarder = opened.map_err(|error| explain_forward(&error, self))?;
        let stream = forwarder.take_stream(self.port);
        let error = forwarder.take_error(self.port);
        Ok(ForwardedConnection {
            stream: stream.expect("the port was requested"),
            error: error.map(|it| -> Refusal { Box::pin(it) }),
            has_received: false,
            pending_port: Some(self.clone()),
        })
    }

    /// The error that the node reports for the port, if any, from a connection that is not used: bytes
    /// that are sent while the node ends a connection make its report get lost.
    async fn refusal(self) -> Option<String> {
        let opened = self.pods.portforward(&self.pod, &[self.port]).await;
        let mut forwarder = opened.ok()?;
        let _stream = forwarder.take_stream(self.port);
        let error = forwarder.take_error(self.port)?;
        timeout(REFUSAL_TIMEOUT, error).await.ok()?
    }
}

impl fmt::Display for PodPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "port {} of pod {}/{}",
            self.port, self.namespace, self.pod
        )
    }
}

impl fmt::Debug for PodPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error of an attempt to connect to a port of a pod.
fn explain_forward(error: &kube::Error, port: &PodPort) -> Error {
    let (pod, namespace) = (&port.pod, &port.namespace);
    let code = match error {
        kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(code)) => {
            code.as_u16()
        }
        kube::Error::Api(status) => status.code,
        _ => 0,
    };
    match code {
        403 => anyhow!(
            "you may not forward ports of pods in namespace {namespace}; ask an administrator of the \
             cluster for the verbs get and create on pods/portforward"
        ),
        404 => anyhow!("pod {pod} in namespace {namespace} is gone; try again"),
        0 => anyhow!("cannot forward to {port}: {}", root(error)),
        code => anyhow!("cannot forward to {port}: the API server responded with {code}"),
    }
}

/// Resolves to the reason for which the port cannot be used, or to nothing.
type Refusal = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// A connection to a port of a pod.
pub(crate) struct ForwardedConnection {
    stream: DuplexStream,
    /// None once it has resolved.
    error: Option<Refusal>,
    has_received: bool,
    /// The port, until another connection was opened to query the error.
    pending_port: Option<PodPort>,
}

impl ForwardedConnection {
    /// The error that the node reported for the port, such as connection refused. Returned once.
    fn reported(&mut self, context: &mut Context<'_>) -> Option<io::Error> {
        let Poll::Ready(reason) = self.error.as_mut()?.as_mut().poll(context) else {
            return None;
        };
        self.error = None;
        reason.map(|reason| io::Error::other(brief(&reason)))
    }
}

impl AsyncRead for ForwardedConnection {
    /// Reads. If the node reports an error for the port, fails with it. If a stream ends without
    /// any data, waits for the report, or queries it over another connection.
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            this.has_received = true;
            return read;
        }
        loop {
            if let Some(error) = this.reported(context) {
                return Poll::Ready(Err(error));
            }
            if read.is_pending() || this.has_received {
                return read;
            }
            if this.error.is_some() {
                return Poll::Pending;
            }
            let Some(port) = this.pending_port.take() else {
                return read;
            };
            this.error = Some(Box::pin(port.refusal()));
        }
    }
}

impl AsyncWrite for ForwardedConnection {
    /// Writes. A connection that no longer takes data fails with the error that the node reported.
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_write(context, bytes) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(this.reported(context).unwrap_or(error))),
            written => written,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

/// The part of the node's message that concerns the user: it begins with ids of sandboxes.
fn brief(reason: &str) -> &str {
    let reason = reason.trim();
    let start = reason
        .find(DIAL_ERROR)
        .map_or(0, |at| at + DIAL_ERROR.len());
    let brief = reason.get(start..).unwrap_or(reason);
    // The same of IPv6 follows.
    brief.split(" IPv6").next().unwrap_or(brief)
}

const DIAL_ERROR: &str = "dial tcp4 ";

/// 2 s: a node reports within milliseconds that nothing listens on a port.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
