//! The protocols of client and origin, for properties that hold for every pair of protocols.

use std::net::SocketAddr;
use std::sync::LazyLock;

use super::bridge::{into_h2, out_of_h2};
use super::pki::{Authority, Credential, authority};
use super::tls_bridge::{into_tls, out_of_tls};
use super::{Client, Driver, Gateway, GatewayBuilder, Origin, client, gateway, tls};

/// The protocol of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SideProtocol {
    H1,
    H2c,
}

/// The transport of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SideTransport {
    Nothing,
    Tls,
}

/// The certificate authority, and the certificates of the gateway and the origins.
struct Trust {
    authority: Authority,
    gateway: Credential,
    origin: Credential,
}

static TRUST: LazyLock<Trust> = LazyLock::new(|| {
    let authority = authority("ca");
    Trust {
        gateway: authority.server(&["gateway.test"]),
        origin: authority.server(&["origin.test"]),
        authority,
    }
});

/// A driver, and the protocol and transport of client and origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) driver: Driver,
    pub(crate) client: SideProtocol,
    pub(crate) origin: SideProtocol,
    /// The transport of the client.
    pub(crate) from: SideTransport,
    /// The transport of the origin.
    pub(crate) to: SideTransport,
}

impl Pair {
    /// A gateway with nothing behind it.
    pub(crate) fn gateway(self) -> GatewayBuilder {
        let gateway = gateway(self.driver);
        let gateway = match self.from {
            SideTransport::Nothing => gateway,
            SideTransport::Tls => gateway.seals("http", &TRUST.gateway),
        };
        match self.to {
            SideTransport::Nothing => gateway,
            SideTransport::Tls => gateway.authority("ca", &TRUST.authority),
        }
    }

    /// The scheme of the client's URLs.
    pub(crate) fn scheme(self) -> &'static str {
        match self.from {
            SideTransport::Nothing => "http",
            SideTransport::Tls => "https",
        }
    }

    /// A gateway that forwards everything to this origin.
    pub(crate) fn gateway_to(self, origin: &Origin) -> GatewayBuilder {
        self.backend(self.gateway(), "origin", &[origin.address()])
            .rule("{backendRefs: [{@origin}]}")
    }

    /// Declares a backend of origins with the pair's protocol.
    pub(crate) fn backend(
        self,
        gateway: GatewayBuilder,
        name: &str,
        origins: &[SocketAddr],
    ) -> GatewayBuilder {
        let addresses: Vec<_> = origins.iter().map(|origin| self.before(*origin)).collect();
        self.backend_at(gateway, name, &addresses)
    }

    /// Declares a backend of addresses where the pair's protocol is spoken, or where nothing
    /// listens.
    pub(crate) fn backend_at(
        self,
        gateway: GatewayBuilder,
        name: &str,
        addresses: &[SocketAddr],
    ) -> GatewayBuilder {
        let gateway = gateway.backend(name, addresses);
        let gateway = match self.origin {
            SideProtocol::H1 => gateway,
            SideProtocol::H2c => gateway.speaks(name, "H2C"),
        };
        match self.to {
            SideTransport::Nothing => gateway,
            SideTransport::Tls => gateway.backend_tls(
                name,
                "hostname: origin.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]",
            ),
        }
    }

    /// The address at which an origin speaks the pair's protocol.
    pub(crate) fn before(self, origin: SocketAddr) -> SocketAddr {
        let (address, protocols): (_, &'static [&'static str]) = match self.origin {
            SideProtocol::H1 => (origin, &["http/1.1"]),
            SideProtocol::H2c => (out_of_h2(origin), &["h2"]),
        };
        match self.to {
            SideTransport::Nothing => address,
            SideTransport::Tls => out_of_tls(address, &TRUST.origin, protocols),
        }
    }

    /// A client of the gateway.
    #[track_caller]
    pub(crate) fn client(self, gateway: &Gateway) -> Client {
        let (into, protocol): (fn(SocketAddr) -> SocketAddr, _) = match self.client {
            SideProtocol::H1 => (|address| address, "http/1.1"),
            SideProtocol::H2c => (into_h2, "h2"),
        };
        let address = match self.from {
            SideTransport::Nothing => gateway.address(),
            SideTransport::Tls => {
                let tls = tls(&TRUST.authority, "gateway.test").offers(&[protocol]);
                into_tls(gateway.address(), &tls)
            }
        };
        client(into(address))
    }
}

/// Makes a test of each function for every pair of protocols, in plain text on both sides and with
/// TLS on both, on every driver. The semantics of a request do not depend on the transport of the
/// other side; only the flow of bodies does, which has tests with [`on_every_pair_and_mix`].
#[allow(unused_macros, reason = "not every test crate has pairs")]
macro_rules! on_every_pair {
    ($($(#[$attribute:meta])* fn $name:ident($pair:ident) $body:block)*) => {
        crate::support::on_every_pair! { @pairs { $($name)* }
            h1_to_h1 H1 H1 Nothing Nothing, h1_to_h2c H1 H2c Nothing Nothing,
            h2c_to_h1 H2c H1 Nothing Nothing, h2c_to_h2c H2c H2c Nothing Nothing,
            tls_h1_to_h1 H1 H1 Tls Tls, tls_h1_to_h2 H1 H2c Tls Tls,
            tls_h2_to_h1 H2c H1 Tls Tls, tls_h2_to_h2 H2c H2c Tls Tls,
        }
        $(
            $(#[$attribute])*
            fn $name($pair: crate::support::Pair) $body
        )*
    };
    (@pairs $names:tt $($module:ident $client:ident $origin:ident $from:ident $to:ident,)*) => {$(
        mod $module {
            crate::support::on_every_pair! { @pair $names $client $origin $from $to }
        }
    )*};
    (@pair { $($name:ident)* } $client:ident $origin:ident $from:ident $to:ident) => {
        crate::support::on_both_drivers! {
            $(fn $name(driver) {
                super::$name(crate::support::Pair {
                    driver,
                    client: crate::support::SideProtocol::$client,
                    origin: crate::support::SideProtocol::$origin,
                    from: crate::support::SideTransport::$from,
                    to: crate::support::SideTransport::$to,
                });
            })*
        }
    };
}
pub(crate) use on_every_pair;

/// As [`on_every_pair`], and with TLS on one side alone. It doubles the time that a test takes, so
/// it is used only for the flow of data: bodies, their ends, and backpressure.
#[allow(unused_macros, reason = "not every test crate has pairs")]
macro_rules! on_every_pair_and_mix {
    ($($(#[$attribute:meta])* fn $name:ident($pair:ident) $body:block)*) => {
        crate::support::on_every_pair! { @pairs { $($name)* }
            tls_h1_to_plain_h1 H1 H1 Tls Nothing, tls_h1_to_h2c H1 H2c Tls Nothing,
            tls_h2_to_plain_h1 H2c H1 Tls Nothing, tls_h2_to_h2c H2c H2c Tls Nothing,
            h1_to_tls_h1 H1 H1 Nothing Tls, h1_to_tls_h2 H1 H2c Nothing Tls,
            h2c_to_tls_h1 H2c H1 Nothing Tls, h2c_to_tls_h2 H2c H2c Nothing Tls,
        }
        crate::support::on_every_pair! {
            $($(#[$attribute])* fn $name($pair) $body)*
        }
    };
}
pub(crate) use on_every_pair_and_mix;
