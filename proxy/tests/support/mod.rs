//! The language of the wire tests: an `origin()` that records and replies byte by byte, the
//! `gateway()` under test as a process of its own, and a `client()` that speaks raw bytes.
//!
//! Nothing here uses the proxy's own code: a parser shared with the thing it judges would share its
//! mistakes. Nothing sleeps to synchronize: conditions are waited for, with a deadline
//! ([`TIMEOUT`]).

mod authorizer;
mod bridge;
pub(crate) mod calls;
mod client;
mod config;
mod conversation;
mod driver;
pub(crate) mod frames;
mod gate;
mod gateway;
mod kernel;
mod log;
mod message;
mod origin;
mod pair;
mod pattern;
mod peer;
mod picker;
pub(crate) mod pki;
mod port;
mod reply;
mod reviewer;
mod seccomp;
pub(crate) mod session;
mod tls;
mod tls_bridge;
mod tokens;
mod wire;

use std::time::Duration;

pub(crate) use authorizer::{
    allowing, allowing_with_response_fields, authorizer, denying, early_authorizer,
    silent_authorizer,
};
pub(crate) use bridge::{into_h2, out_of_h2};
pub(crate) use client::{Client, ConnectionEnd, Cut, client, tls_client};
pub(crate) use config::tls_secret;
pub(crate) use driver::Driver;
pub(crate) use gate::{ByteCounter, Gate};
pub(crate) use gateway::{Failure, Gateway, GatewayBuilder, Signal, gateway};
pub(crate) use log::Reader;
pub(crate) use message::{Framing, Message};
pub(crate) use origin::{Origin, origin, origin_on, refused, tls_origin};
pub(crate) use pair::{Pair, SideProtocol, SideTransport, on_every_pair, on_every_pair_and_mix};
pub(crate) use pattern::{pattern, same_bytes};
pub(crate) use peer::{Peer, echo_peer, greeting_peer, tcp_peer, udp_peer};
pub(crate) use picker::{Picker, PickerBehavior, PickerRequest, picker, plain_picker};
pub(crate) use port::Ports;
pub(crate) use reply::{Reply, chunked, ok, raw, status};
pub(crate) use reviewer::{CallEnd, ResponseBehavior};
pub(crate) use seccomp::RingCall;
pub(crate) use tls::{ClientCertificates, Tls, tls};
pub(crate) use tls_bridge::{into_tls, out_of_tls};
pub(crate) use tokens::{Signer, key_set};
pub(crate) use wire::{Broken, Wire};

/// Timeout of anything that must happen. Only a failing test waits this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// A wait for something that must not happen. A pass proves little; a failure proves a bug.
pub(crate) const MOMENT: Duration = Duration::from_millis(200);

/// The most bytes between a slow reader and its writer: our 64 KiB each way, and the kernel's send
/// and receive buffers of two connections, which grow to 4 and, where it is allowed so, 32 MiB.
pub(crate) const MAX_IN_FLIGHT: u64 = 96 << 20;

/// Makes two tests of each function: `io_uring::name` and `epoll::name`.
macro_rules! on_both_drivers {
    ($($(#[$attribute:meta])* fn $name:ident($driver:ident) $body:block)*) => {
        mod io_uring {
            $(
                $(#[$attribute])*
                #[test]
                fn $name() {
                    if let Some(driver) = crate::support::Driver::io_uring() {
                        super::$name(driver);
                    }
                }
            )*
        }
        mod epoll {
            $(
                $(#[$attribute])*
                #[test]
                fn $name() {
                    super::$name(crate::support::Driver::Epoll);
                }
            )*
        }
        $(
            fn $name($driver: crate::support::Driver) $body
        )*
    };
}
pub(crate) use on_both_drivers;
