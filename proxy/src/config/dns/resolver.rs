//! Resolves names as the system does, by `/etc/resolv.conf` and `/etc/hosts`, which are read again
//! when they change.
//!
//! In a cluster, names come from users who do not own the proxy: they may not resolve to its
//! machine, and the search domains of its pod, which would make `db.other` a Service of any
//! namespace, do not apply.
//!
//! IPv6 addresses are used only for names without IPv4 addresses: on a machine without IPv6, half
//! of the requests to a name with both would fail.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolverOpts};
use thiserror::Error;
use xds::model::{Hostname, is_local_address};

/// Addresses of a name, with their TTL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its addresses, at least one.
    pub addresses: Vec<IpAddr>,
    /// How long they are valid.
    pub ttl: Duration,
}

/// Why a lookup failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct LookupError(pub String);

/// Looks up addresses (A and AAAA) with the servers of `resolv.conf`.
#[derive(Clone)]
pub struct Resolver {
    inner: Result<TokioResolver, LookupError>,
    source: Source,
    allowed: AllowedAddresses,
}

/// Which addresses names may resolve to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedAddresses {
    AnyAddress,
    /// Only those of other machines.
    OtherMachines,
}

/// Where its configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// The system's files, with their modification times.
    System([Option<SystemTime>; 2]),
    Explicit,
}

impl Resolver {
    /// Uses the system's name servers.
    #[must_use]
    pub fn system() -> Self {
        let unusable = |error: &dyn std::fmt::Display| {
            let files = SYSTEM_FILES.join(" or ");
            LookupError(format!("cannot use {files}: {error}"))
        };
        let inner = TokioResolver::builder_tokio()
            .map_err(|error| unusable(&error))
            .and_then(|mut builder| {
                configure(builder.options_mut());
                builder.build().map_err(|error| unusable(&error))
            });
        Self {
            inner,
            source: Source::System(system_files()),
            allowed: AllowedAddresses::AnyAddress,
        }
    }

    /// Uses a resolver that was configured elsewhere.
    #[must_use]
    pub fn new(resolver: TokioResolver) -> Self {
        Self {
            inner: Ok(resolver),
            source: Source::Explicit,
            allowed: AllowedAddresses::AnyAddress,
        }
    }

    /// The same for names that users of a cluster chose.
    #[must_use]
    pub fn for_cluster(self) -> Self {
        Self {
            allowed: AllowedAddresses::OtherMachines,
            ..self
        }
    }

    /// Reads the system's configuration again if it changed.
    pub fn refresh(&mut self) {
        if let Source::System(seen) = self.source
            && seen != system_files()
        {
            *self = Self {
                allowed: self.allowed,
                ..Self::system()
            };
        }
    }

    /// Looks up a name.
    ///
    /// # Errors
    /// It has no address, or no server answered.
    pub async fn lookup(&self, name: &Hostname) -> Result<Answer, LookupError> {
        let resolver = self.inner.as_ref().map_err(Clone::clone)?;
        let found = resolver.lookup_ip(self.allowed.query(name)).await;
        let found = found.map_err(|error| LookupError(error.to_string()))?;
        let mut addresses: Vec<IpAddr> = found.iter().collect();
        if addresses.is_empty() {
            return Err(LookupError("the name has no address".to_owned()));
        }
        addresses.retain(|&address| self.allowed.includes(address));
        if addresses.is_empty() {
            let message = "the name has loopback, unspecified or link-local addresses, or those of a cloud's \
                           metadata server, alone, which are not used in a cluster: they lead to the proxy \
                           itself or to its node";
            return Err(LookupError(message.to_owned()));
        }
        let ttl = found
            .valid_until()
            .saturating_duration_since(Instant::now());
        Ok(Answer { addresses, ttl })
    }
}

impl AllowedAddresses {
    /// The query for a name. A name that ends in `.svc` is a Service's, without the domain of the
    /// cluster, which only the search domains contain. The controller has checked who may refer to
    /// Services like this.
    fn query(self, name: &Hostname) -> String {
        let name = name.as_str();
        let is_service = name.rsplit('.').next() == Some("svc");
        match self {
            Self::OtherMachines if !is_service => format!("{name}."),
            Self::AnyAddress | Self::OtherMachines => name.to_owned(),
        }
    }

    fn includes(self, address: IpAddr) -> bool {
        self == Self::AnyAddress || !is_local_address(address)
    }
}

/// Options for any resolver: no cache of its own, since lookups follow the TTL.
pub(super) fn configure(options: &mut ResolverOpts) {
    options.ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
    options.cache_size = 0;
}

fn system_files() -> [Option<SystemTime>; 2] {
    SYSTEM_FILES.map(|file| Path::new(file).metadata().and_then(|it| it.modified()).ok())
}

const SYSTEM_FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

#[cfg(test)]
mod tests;
