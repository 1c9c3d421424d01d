//! The state machine of the connection to the controller.

use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

use xds::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use xds_grpc::client::{ConnectError, Controller, Stream, StreamError};

use crate::config::apply::sleep_until;

pub(super) enum Link {
    /// No connection; the next attempt is at this time.
    Disconnected(Instant),
    /// It is being made.
    Connecting(Connecting),
    Connected(Box<Stream>),
}

type Connecting = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send>>;

/// An event of the connection.
pub(super) enum LinkEvent {
    /// An attempt to connect is due.
    Due,
    Connected(Box<Stream>),
    NotConnected(ConnectError),
    Received(DeltaDiscoveryResponse),
    /// The controller has ended the stream.
    Ended,
    Broken(StreamError),
}

impl Link {
    pub(super) fn connect(controller: Controller) -> Self {
        Self::Connecting(Box::pin(async move { controller.connect().await }))
    }

    /// Waits for the next event. Cancel safe.
    pub(super) async fn next(&mut self) -> LinkEvent {
        match self {
            Self::Disconnected(until) => {
                sleep_until(Some(*until)).await;
                LinkEvent::Due
            }
            Self::Connecting(connecting) => match connecting.await {
                Ok(stream) => LinkEvent::Connected(Box::new(stream)),
                Err(error) => LinkEvent::NotConnected(error),
            },
            Self::Connected(stream) => match stream.next().await {
                Ok(Some(response)) => LinkEvent::Received(response),
                Ok(None) => LinkEvent::Ended,
                Err(error) => LinkEvent::Broken(error),
            },
        }
    }

    /// Whether there is a stream of a controller that takes symptoms.
    pub(super) fn takes_symptoms(&self) -> bool {
        matches!(self, Self::Connected(stream) if stream.takes_symptoms())
    }

    /// Sends a request if there is a stream. If it has just ended, the request is lost: the next
    /// stream begins with the full state.
    pub(super) fn send(&self, request: DeltaDiscoveryRequest) {
        if let Self::Connected(stream) = self {
            stream.send(request);
        }
    }
}
