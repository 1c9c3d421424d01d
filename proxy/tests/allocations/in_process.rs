//! A gateway of one shard in this process, put together as `main` does it.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use crossbeam::channel::{Receiver, Sender};
use proxy::config::apply::BindRequest;
use proxy::config::compile::CompileOptions;
use proxy::config::local::{self, LocalConfig, LocalHandle};
use proxy::machine::driver::DriverChoice;
use proxy::observe::log_writer::{LogQueue, LogWriter};
use proxy::supervisor::{DrainPlan, Event, ShardPlan, Shards, ShutdownMode, supervise};
use tempfile::TempDir;

use crate::support::{Driver, GatewayBuilder, Ports, gateway};

/// A running gateway whose access log is discarded; stopped when dropped.
pub(crate) struct InProcess {
    address: SocketAddr,
    shards: Shards,
    events: Receiver<Event>,
    sender: Sender<Event>,
    config: Option<LocalHandle>,
    _log: LogWriter,
    _ports: Ports,
    _folder: TempDir,
}

impl InProcess {
    /// Starts one with these backends and one rule.
    pub(crate) fn start(driver: Driver, backends: &[(&str, SocketAddr)], rule: &str) -> Self {
        let mut builder = gateway(driver);
        for (name, address) in backends {
            builder = builder.backend(name, &[*address]);
        }
        Self::run(driver, &builder.rule(rule), 1)
    }

    /// Starts one with this configuration on this many ports; the last one is measured.
    pub(crate) fn run(driver: Driver, builder: &GatewayBuilder, ports: usize) -> Self {
        let ports = Ports::free(ports);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("gateway.yaml");
        std::fs::write(&file, builder.yaml(&ports)).expect("a file in our own folder");

        let published = Arc::new(ArcSwap::default());
        let log = LogQueue::new();
        let writer = LogWriter::spawn(Arc::clone(&log), std::io::sink()).expect("a thread");
        let (shards, events, sender) =
            Shards::start(plan(driver), Arc::clone(&published), log).expect("a shard");
        let binding = shards.clone();
        let binder = move |wanted: Vec<BindRequest>| {
            binding.listen_on(
                wanted
                    .iter()
                    .map(|bind| (bind.id, bind.transport, bind.address)),
            )
        };
        let config = LocalConfig {
            paths: vec![file],
            unknown_fields: translate::files::UnknownFields::Refuse,
            port_offset: 0,
            reserved_ports: std::collections::BTreeSet::new(),
            compile: CompileOptions::new(NonZeroU32::MIN),
            session_keys: proxy::config::session_keys::OwnSessionKeys::read(&[]).expect("a key"),
            in_force: proxy::config::in_force::InForce::default(),
        };
        let config = local::start(config, published, Box::new(binder)).expect("a configuration");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports[ports.len() - 1]));
        Self {
            address,
            shards,
            events,
            sender,
            config: Some(config),
            _log: writer,
            _ports: ports,
            _folder: folder,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        drop(self.config.take());
        let _ = self.sender.send(Event::Stop(ShutdownMode::Prompt));
        let at_once = DrainPlan {
            accept: Duration::ZERO,
            deadline: Duration::ZERO,
        };
        supervise(&self.shards, &self.events, at_once);
    }
}

fn plan(driver: Driver) -> ShardPlan {
    ShardPlan {
        shards: NonZeroU32::MIN,
        driver: match driver {
            Driver::IoUring => DriverChoice::IoUring,
            Driver::Epoll => DriverChoice::Epoll,
            Driver::Auto => DriverChoice::Auto,
        },
        cores: None,
        descriptors: 200,
    }
}
