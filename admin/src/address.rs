//! Listen addresses of the servers, as given on the command line.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

/// The address that a server listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The server is disabled.
    Off,
    /// An IP address and a TCP port.
    Tcp(SocketAddr),
    /// A port on the loopback addresses of both families.
    Localhost(u16),
    /// The path of a unix socket, which is created with mode 0600.
    Unix(PathBuf),
}

impl Address {
    /// Default of the admin server: port 15000, loopback only.
    pub const ADMIN: Self = Self::Localhost(15000);
    /// Default of the metrics server: port 15020 on all interfaces.
    pub const METRICS: Self = Self::any(15020);
    /// Default of the readiness server: port 15021 on all interfaces.
    pub const READINESS: Self = Self::any(15021);

    const fn any(port: u16) -> Self {
        Self::Tcp(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port))
    }

    /// The TCP port, which Gateway listeners cannot use.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(address) => Some(address.port()),
            Self::Localhost(port) => Some(*port),
            Self::Off | Self::Unix(_) => None,
        }
    }

    /// The addresses to bind. Each list holds alternatives, of which the first available one is used.
    pub(crate) fn sockets(&self) -> Vec<Vec<SocketAddr>> {
        match self {
            Self::Off | Self::Unix(_) => Vec::new(),
            Self::Localhost(port) => vec![
                vec![(Ipv4Addr::LOCALHOST, *port).into()],
                vec![(Ipv6Addr::LOCALHOST, *port).into()],
            ],
            // Fallback for machines without IPv6.
            Self::Tcp(address) if address.ip() == Ipv6Addr::UNSPECIFIED => {
                vec![vec![
                    *address,
                    (Ipv4Addr::UNSPECIFIED, address.port()).into(),
                ]]
            }
            Self::Tcp(address) => vec![vec![*address]],
        }
    }
}

/// The text is not a valid [`Address`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "invalid address `{0}`: use `127.0.0.1:15000`, `[::]:15020`, `localhost:15000`, `unix:/run/gateway.sock` or `off`"
)]
pub struct InvalidAddress(String);

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = || InvalidAddress(text.to_owned());
        if text == "off" {
            return Ok(Self::Off);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return path
                .is_absolute()
                .then_some(Self::Unix(path))
                .ok_or_else(invalid);
        }
        if let Some(port) = text.strip_prefix("localhost:") {
            return port.parse().map(Self::Localhost).map_err(|_| invalid());
        }
        text.parse().map(Self::Tcp).map_err(|_| invalid())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Tcp(address) => address.fmt(f),
            Self::Localhost(port) => write!(f, "localhost:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_round_trip() {
        for text in [
            "off",
            "127.0.0.1:15000",
            "[::]:15020",
            "localhost:1",
            "unix:/run/a.sock",
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn an_invalid_address_is_rejected() {
        for text in [
            "",
            "15000",
            "localhost",
            "localhost:x",
            "unix:",
            "unix:a",
            "a.example:80",
            "::1:80000",
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains("127.0.0.1:15000"), "{error}");
        }
    }

    #[test]
    fn localhost_binds_both_families_and_the_unspecified_address_falls_back_to_ipv4() {
        let texts = |address: &Address| -> Vec<Vec<String>> {
            let sockets = address.sockets();
            let texts = |list: Vec<_>| list.iter().map(std::net::SocketAddr::to_string).collect();
            sockets.into_iter().map(texts).collect()
        };
        assert_eq!(
            texts(&Address::ADMIN),
            [["127.0.0.1:15000"], ["[::1]:15000"]]
        );
        assert_eq!(texts(&Address::METRICS), [["[::]:15020", "0.0.0.0:15020"]]);
        assert_eq!(texts(&Address::Off), Vec::<Vec<String>>::new());
    }
}
