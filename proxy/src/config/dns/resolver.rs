//! Asks for names as this machine does: `/etc/resolv.conf` and `/etc/hosts`, read again when they
//! change.
//!
//! IPv4 addresses, and IPv6 ones only of names that have no other: half of the requests to a name of
//! both kinds would fail on a machine that has only one of them.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolverOpts};
use thiserror::Error;
use xds::model::Hostname;

/// What a name came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its addresses, at least one.
    pub addresses: Vec<IpAddr>,
    /// For how long they are good.
    pub ttl: Duration,
}

/// Why a name did not come to an address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct LookupError(pub String);

/// Asks for names.
#[derive(Clone)]
pub struct Resolver {
    inner: Result<TokioResolver, LookupError>,
    source: Source,
}

/// Where its configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// The machine's files, when they were last changed.
    System([Option<SystemTime>; 2]),
    Given,
}

impl Resolver {
    /// Asks whom the machine asks.
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
        }
    }

    /// Asks a resolver that was set up elsewhere.
    #[must_use]
    pub fn new(resolver: TokioResolver) -> Self {
        Self {
            inner: Ok(resolver),
            source: Source::Given,
        }
    }

    /// Reads the machine's configuration again if it changed.
    pub fn refresh(&mut self) {
        if let Source::System(seen) = self.source
            && seen != system_files()
        {
            *self = Self::system();
        }
    }

    /// Asks for a name.
    ///
    /// # Errors
    /// It has no address, or nobody answered.
    pub async fn lookup(&self, name: &Hostname) -> Result<Answer, LookupError> {
        let resolver = self.inner.as_ref().map_err(Clone::clone)?;
        let found = resolver.lookup_ip(name.as_str()).await;
        let found = found.map_err(|error| LookupError(error.to_string()))?;
        let addresses: Vec<IpAddr> = found.iter().collect();
        if addresses.is_empty() {
            return Err(LookupError("the name has no address".to_owned()));
        }
        let ttl = found
            .valid_until()
            .saturating_duration_since(Instant::now());
        Ok(Answer { addresses, ttl })
    }
}

/// What we want of any resolver: no cache of its own, since we ask when an answer's time is over.
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
