//! The connection to the controller: away, being made, or up.

use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

use xds::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use xds_grpc::client::{ConnectError, Controller, Stream, StreamError};

use crate::config::apply::sleep_until;

pub(super) enum Link {
    /// There is none, until then.
    Away(Instant),
    /// It is being made.
    Connecting(Connecting),
    Up(Box<Stream>),
}

type Connecting = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send>>;

/// What happened with it.
pub(super) enum Happened {
    /// It is time to connect.
    Due,
    Connected(Box<Stream>),
    /// It could not be made.
    NotConnected(ConnectError),
    Received(DeltaDiscoveryResponse),
    /// The controller has ended the stream.
    Ended,
    Broken(StreamError),
}

impl Link {
    pub(super) fn connect(controller: Controller, first: Vec<DeltaDiscoveryRequest>) -> Self {
        Self::Connecting(Box::pin(async move { controller.connect(first).await }))
    }

    /// Waits for what happens. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Happened {
        match self {
            Self::Away(until) => {
                sleep_until(Some(*until)).await;
                Happened::Due
            }
            Self::Connecting(connecting) => match connecting.await {
                Ok(stream) => Happened::Connected(Box::new(stream)),
                Err(error) => Happened::NotConnected(error),
            },
            Self::Up(stream) => match stream.next().await {
                Ok(Some(response)) => Happened::Received(response),
                Ok(None) => Happened::Ended,
                Err(error) => Happened::Broken(error),
            },
        }
    }

    /// Sends a request, where there is a stream. It is one no longer only where it ended, and the
    /// next one begins with everything that is held.
    pub(super) fn send(&self, request: DeltaDiscoveryRequest) {
        if let Self::Up(stream) = self {
            stream.send(request);
        }
    }
}
