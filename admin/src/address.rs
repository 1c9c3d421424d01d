//! Where a server listens, as the command line says it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Nowhere.
    Off,
    /// On one address.
    Tcp(SocketAddr),
    /// On the loopback addresses of both families.
    Localhost(u16),
    /// On a unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Of the admin server, where nothing else is said: port 15000 of the machine itself alone.
    pub const ADMIN: Self = Self::Localhost(15000);
    /// Of the metrics, likewise.
    pub const METRICS: Self = Self::everywhere(15020);
    /// Of readiness, likewise.
    pub const READINESS: Self = Self::everywhere(15021);

    const fn everywhere(port: u16) -> Self {
        Self::Tcp(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port))
    }

    /// Its port, which no listener of a Gateway can have.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(address) => Some(address.port()),
            Self::Localhost(port) => Some(*port),
            Self::Off | Self::Unix(_) => None,
        }
    }

    /// The addresses to bind. Each list holds alternatives: the first one that the machine has.
    pub(crate) fn sockets(&self) -> Vec<Vec<SocketAddr>> {
        match self {
            Self::Off | Self::Unix(_) => Vec::new(),
            Self::Localhost(port) => vec![
                vec![(Ipv4Addr::LOCALHOST, *port).into()],
                vec![(Ipv6Addr::LOCALHOST, *port).into()],
            ],
            // Where IPv6 is switched off.
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

/// Why a text is no [`Address`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no address: use `127.0.0.1:15000`, `[::]:15020`, `localhost:15000`, `unix:/run/gateway.sock` or `off`"
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
    fn addresses_print_what_they_parse() {
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
    fn what_is_no_address_is_refused() {
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
    fn localhost_is_both_families_and_everywhere_falls_back_to_ipv4() {
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
