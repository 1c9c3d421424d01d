//! From the model to a [`Snapshot`]: joins what names each other, so that requests look nothing up.
//!
//! Runs off the shards, as a whole at every change. Listeners join their bind and routes their
//! listener, policies are merged into what they aim at, services and the workloads behind them
//! become clusters.

mod bind;
mod cluster;
mod ids;
mod jwt;
mod l4;
mod policy;
mod rule;
mod tls;

use std::net::SocketAddr;
use std::num::NonZeroU32;

use xds::model::{self, LogFormat, Model};

use self::bind::BindCompiler;
use self::cluster::{ClusterCompiler, Targets, Users};
use self::ids::Ids;
use self::jwt::Authenticators;
use self::policy::Policies;
use self::tls::TlsCompiler;
use super::Snapshot;
use super::dns::Resolved;
use crate::policy::jwt::Wake;

pub use self::jwt::RemoteKeys;

/// What holds for every configuration of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileOptions {
    /// Shards, which limits are divided by.
    pub shards: NonZeroU32,
    /// The access log where no policy speaks of it.
    pub access_log: model::AccessLog,
}

impl CompileOptions {
    /// So many shards, which log every request as a line of text.
    #[must_use]
    pub fn new(shards: NonZeroU32) -> Self {
        Self {
            shards,
            access_log: model::AccessLog {
                off: false,
                format: LogFormat::Text,
                sample_per_million: 1_000_000,
                filter: model::AccessLogFilter::default(),
            },
        }
    }
}

/// Compiles one configuration after another. What they have in common keeps its ids.
#[derive(Debug, Default)]
pub struct Compiler {
    version: u64,
    ids: Ids,
    jwt: Authenticators,
    tls: TlsCompiler,
}

impl Compiler {
    /// Compiles a model. What names something that is not in it does without: listeners without
    /// their bind and routes without their listener are left out, and backends that are missing
    /// answer 500. [`Model::dangling`] lists them.
    pub fn compile(
        &mut self,
        model: &Model,
        resolved: &Resolved,
        options: &CompileOptions,
    ) -> Snapshot {
        self.version += 1;
        self.ids.begin(self.version);
        self.jwt.begin();
        self.tls.begin(self.version);
        let policies = Policies::of(model);
        let targets = Targets::of(model, &policies);
        let mut users = Users::new(&targets, &policies);
        let ids = &mut self.ids;
        let binds = BindCompiler {
            model,
            policies: &policies,
            targets: &targets,
            users: &mut users,
            ids: &mut *ids,
            jwt: &mut self.jwt,
            tls: &mut self.tls,
            options,
        };
        let binds = binds.compile();
        self.jwt.forget_unused();
        let clusters = ClusterCompiler {
            targets: &targets,
            policies: &policies,
            users: &users,
            resolved,
            shards: options.shards,
            ids,
            tls: &mut self.tls,
        };
        let clusters = clusters.compile();
        let connections = clusters.iter().map(|it| it.connections_per_shard.get());
        Snapshot {
            version: self.version,
            binds,
            upstream_connections_per_shard: connections.fold(0, u32::saturating_add),
            clusters,
        }
    }

    /// One that has this called when a shard misses a key.
    #[must_use]
    pub fn woken_by(wake: Option<Wake>) -> Self {
        Self {
            jwt: Authenticators::woken_by(wake),
            ..Self::default()
        }
    }

    /// The key sets that the last configuration has to fetch.
    #[must_use]
    pub fn remote_keys(&self) -> &[RemoteKeys] {
        self.jwt.remote_keys()
    }

    /// Takes back the ids that no snapshot from version `oldest` on has. Call it when every shard
    /// has let go of the older ones.
    pub fn release(&mut self, oldest: u64) {
        self.ids.release(oldest);
    }
}

/// The address of a bind.
fn address(bind: &model::Bind) -> SocketAddr {
    SocketAddr::new(bind.address, bind.port.get())
}

#[cfg(test)]
mod tests;
