//! The gRPC stream of delta xDS, both sides: transports the state machines of [`xds::delta`].
//!
//! One method carries everything: `envoy.service.discovery.v3.AggregatedDiscoveryService/
//! DeltaAggregatedResources`, a bidirectional stream of the messages in [`xds::discovery`].
//! [`server`] is the controller's side and [`client`] the proxy's. It is a crate of its own so that
//! programs which only need the model do not link an HTTP/2 implementation.

pub mod client;
mod codec;
mod node;
pub mod server;

pub use codec::{Prost, ProstDecoder, ProstEncoder};
pub use node::{InvalidNodeId, NodeId};

/// The path of the method, as a request names it.
pub const METHOD: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// The response header with the zone of the proxy, if the controller knows it.
pub const ZONE_HEADER: &str = "gateway-zone";
