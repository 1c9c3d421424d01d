//! Who speaks what around the gateway, for properties that hold for every pair of protocols.

use std::net::SocketAddr;

use super::bridge::{into_h2, out_of_h2};
use super::{Client, Driver, Gateway, GatewayBuilder, Origin, client, gateway};

/// What one side speaks with the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    H1,
    H2c,
}

/// A driver, and what client and origin speak.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) driver: Driver,
    pub(crate) client: Speaks,
    pub(crate) origin: Speaks,
}

impl Pair {
    /// A gateway with nothing behind it.
    pub(crate) fn gateway(self) -> GatewayBuilder {
        gateway(self.driver)
    }

    /// A gateway that sends everything to this origin.
    pub(crate) fn gateway_to(self, origin: &Origin) -> GatewayBuilder {
        self.backend(self.gateway(), "origin", &[origin.address()])
            .rule("{backendRefs: [{@origin}]}")
    }

    /// Declares a backend of origins that speak what this pair says.
    pub(crate) fn backend(
        self,
        gateway: GatewayBuilder,
        name: &str,
        origins: &[SocketAddr],
    ) -> GatewayBuilder {
        match self.origin {
            Speaks::H1 => gateway.backend(name, origins),
            Speaks::H2c => {
                let bridges: Vec<_> = origins.iter().map(|origin| out_of_h2(*origin)).collect();
                gateway.backend(name, &bridges).speaks(name, "H2C")
            }
        }
    }

    /// A client of the gateway.
    #[track_caller]
    pub(crate) fn client(self, gateway: &Gateway) -> Client {
        match self.client {
            Speaks::H1 => gateway.client(),
            Speaks::H2c => client(into_h2(gateway.address())),
        }
    }
}

/// Makes a test of each function for every pair of protocols on every driver.
#[allow(unused_macros, reason = "not every test crate has pairs")]
macro_rules! on_every_pair {
    ($($(#[$attribute:meta])* fn $name:ident($pair:ident) $body:block)*) => {
        crate::support::on_every_pair! { @side
            h1_to_h1 H1 H1 { $($name)* } h1_to_h2c H1 H2c { $($name)* }
            h2c_to_h1 H2c H1 { $($name)* } h2c_to_h2c H2c H2c { $($name)* }
        }
        $(
            $(#[$attribute])*
            fn $name($pair: crate::support::Pair) $body
        )*
    };
    (@side $($module:ident $client:ident $origin:ident { $($name:ident)* })*) => {$(
        mod $module {
            crate::support::on_both_drivers! {
                $(fn $name(driver) {
                    super::$name(crate::support::Pair {
                        driver,
                        client: crate::support::Speaks::$client,
                        origin: crate::support::Speaks::$origin,
                    });
                })*
            }
        }
    )*};
}
pub(crate) use on_every_pair;
