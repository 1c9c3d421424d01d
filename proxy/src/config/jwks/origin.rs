//! The server of a JWKS, resolved by the current configuration.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use xds::model::{Alpn, Hostname, JwksLocation, Target};
use xds::secret;

use super::fetch::FetchError;
use crate::config::dns::Resolver;
use crate::config::{Address, Protection, Snapshot};
use crate::tls::{TlsError, roots};

/// The server of a JWKS.
#[derive(Debug)]
pub(super) struct Origin {
    addresses: Addresses,
    /// Host name for TLS and the `Host` header.
    pub(super) host: String,
    pub(super) path: String,
    pub(super) tls: Option<Tls>,
}

/// Where to connect to.
#[derive(Debug)]
enum Addresses {
    Known(Vec<Address>),
    Name(Hostname, u16),
}

#[derive(Debug)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) server_name: ServerName<'static>,
}

impl Tls {
    /// The backend's own TLS settings; never plain text if they cannot be built.
    fn of(protection: &Protection) -> Result<Option<Self>, FetchError> {
        let made = match protection {
            Protection::Plain => return Ok(None),
            Protection::Tls(made) => made.off_shards(Some(Alpn::Http11)),
            Protection::Unusable => None,
        };
        let unusable = || unresolvable("the backend's TLS settings are invalid".to_owned());
        let (config, server_name) = made.ok_or_else(unusable)?;
        Ok(Some(Self {
            config: Arc::new(config),
            server_name,
        }))
    }
}

impl Origin {
    /// Resolves a location.
    ///
    /// # Errors
    /// The configuration has no such backend.
    pub(super) fn of(location: &JwksLocation, snapshot: &Snapshot) -> Result<Self, FetchError> {
        match location {
            JwksLocation::Backend { target, path } => Self::of_backend(target, path, snapshot),
            JwksLocation::Url(url) => Self::of_url(url),
        }
    }

    fn of_backend(target: &Target, path: &str, snapshot: &Snapshot) -> Result<Self, FetchError> {
        let name = target.to_string();
        if let Target::Invalid { why, .. } = target {
            return Err(unresolvable(format!("the backend {name} is {why:?}")));
        }
        let mut clusters = snapshot.clusters.iter();
        let cluster = clusters.find(|cluster| *cluster.name == *name);
        let cluster = cluster.ok_or_else(|| unresolvable(format!("there is no {name}")))?;
        let endpoints = cluster.endpoints.iter();
        let addresses: Vec<Address> = endpoints.map(|it| it.address.clone()).collect();
        let first = addresses.first();
        let first = first.ok_or_else(|| unresolvable(format!("{name} has no endpoint")))?;
        let tls = Tls::of(&cluster.protection)?;
        let server_name = tls
            .as_ref()
            .map(|tls| tls.server_name.to_str().into_owned());
        Ok(Self {
            host: server_name.unwrap_or_else(|| match first {
                Address::Tcp(address) => address.to_string(),
                Address::Unix(_) => "localhost".to_owned(),
            }),
            addresses: Addresses::Known(addresses),
            path: path.to_owned(),
            tls,
        })
    }

    fn of_url(url: &str) -> Result<Self, FetchError> {
        let shown = secret::url(url);
        let wrong = |what: &str| unresolvable(format!("{shown} {what}: use an http or https URL"));
        let uri: Uri = url.parse().map_err(|_| wrong("cannot be read"))?;
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(wrong("has another scheme")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("contains user information"));
        }
        let host = authority.host();
        let port = authority
            .port_u16()
            .unwrap_or(if secure { 443 } else { 80 });
        let literal = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<IpAddr>();
        let addresses = match literal {
            Ok(ip) => Addresses::Known(vec![Address::Tcp(SocketAddr::new(ip, port))]),
            Err(_) => Addresses::Name(
                Hostname::parse_exact(&host.to_ascii_lowercase())
                    .map_err(|_| wrong("has an invalid host"))?,
                port,
            ),
        };
        let server_name = match literal {
            Ok(ip) => Some(ServerName::IpAddress(ip.into())),
            Err(_) => ServerName::try_from(host.to_owned()).ok(),
        };
        let tls = match server_name {
            _ if !secure => None,
            Some(server_name) => Some(Tls {
                config: Arc::new(
                    trusting_system().map_err(|error| unresolvable(error.to_string()))?,
                ),
                server_name,
            }),
            None => return Err(wrong("has a host that no certificate can name")),
        };
        Ok(Self {
            addresses,
            host: authority.to_string(),
            path: uri
                .path_and_query()
                .map_or("/", |path| path.as_str())
                .to_owned(),
            tls,
        })
    }

    /// The addresses to try, in order.
    pub(super) async fn addresses(&self, resolver: &Resolver) -> Result<Vec<Address>, FetchError> {
        match &self.addresses {
            Addresses::Known(addresses) => Ok(addresses.clone()),
            Addresses::Name(name, port) => {
                let answer = resolver.lookup(name).await;
                let answer = answer.map_err(|error| unresolvable(error.to_string()))?;
                let sockets = answer.addresses.into_iter();
                let sockets = sockets.map(|ip| Address::Tcp(SocketAddr::new(ip, *port)));
                Ok(sockets.collect())
            }
        }
    }
}

/// Read again for each fetch, which is rare, so that a removed root counts at once.
fn trusting_system() -> Result<ClientConfig, TlsError> {
    let roots = roots::of_system()?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![Alpn::Http11.as_str().as_bytes().to_vec()];
    Ok(config)
}

fn unresolvable(why: String) -> FetchError {
    FetchError::Unresolvable(why)
}

#[cfg(test)]
mod tests;
