//! The sockets of the admin, metrics and readiness servers.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use admin::{Address, BindError, BoundSockets, Sockets};
use thiserror::Error;
use tracing::{info, warn};

use crate::args::RunArgs;

/// The sockets, and the ports that they occupy.
#[derive(Debug)]
pub struct Servers {
    /// Sockets of the admin server, the probes and the metrics.
    pub sockets: Sockets,
    addresses: [Address; 3],
}

/// A server cannot listen.
#[derive(Debug, Error)]
#[error("cannot start the {server} server: {error}, {}; choose another {flag}, or off", why(.error))]
pub struct ServerError {
    server: &'static str,
    flag: &'static str,
    error: BindError,
}

impl Servers {
    /// Ports that listeners cannot use, on any address.
    #[must_use]
    pub fn ports(&self) -> BTreeSet<u16> {
        self.addresses.iter().filter_map(Address::port).collect()
    }
}

/// Listens for all three servers.
///
/// # Errors
///
/// A configured address is unavailable. If a default one is, as with a second gateway on one
/// machine, that is only logged: traffic has priority.
pub fn bind(args: &RunArgs) -> Result<Servers, ServerError> {
    let settings = |server, flag, configured, default| ServerSettings {
        server,
        flag,
        configured,
        default,
    };
    let configured = args.admin_address.as_ref();
    let (admin, admin_address) =
        settings("admin", "--admin-address", configured, Address::ADMIN).bind()?;
    let configured = args.metrics_address.as_ref();
    let metrics = settings("metrics", "--metrics-address", configured, Address::METRICS);
    let (metrics, metrics_address) = metrics.bind()?;
    let configured = args.readiness_address.as_ref();
    let readiness = settings(
        "readiness",
        "--readiness-address",
        configured,
        Address::READINESS,
    );
    let (readiness, readiness_address) = readiness.bind()?;
    Ok(Servers {
        sockets: Sockets {
            admin,
            metrics,
            readiness,
        },
        addresses: [admin_address, metrics_address, readiness_address],
    })
}

/// A server: its name, the flag of its address, and the address.
struct ServerSettings<'a> {
    server: &'static str,
    flag: &'static str,
    configured: Option<&'a Address>,
    default: Address,
}

impl ServerSettings<'_> {
    fn bind(self) -> Result<(BoundSockets, Address), ServerError> {
        let address = self.configured.cloned().unwrap_or(self.default);
        let error = match admin::bind(&address) {
            Ok(bound) => {
                for address in bound.addresses() {
                    info!(server = self.server, %address, "listening");
                }
                return Ok((bound, address));
            }
            Err(error) => ServerError {
                server: self.server,
                flag: self.flag,
                error,
            },
        };
        if self.configured.is_some() {
            return Err(error);
        }
        warn!("{error}");
        Ok((BoundSockets::default(), address))
    }
}

fn why(error: &BindError) -> &'static str {
    match error.error.kind() {
        ErrorKind::AddrInUse => "the port is in use by another process",
        ErrorKind::AddrNotAvailable => "this machine does not have the address",
        ErrorKind::PermissionDenied => "permission denied for this user",
        _ => "the system refuses",
    }
}
