//! Health checks.

use super::value::list;
use crate::model::{HealthCheck, HealthProbe, Hostname, InitialHealth};
use crate::proto::{self, health_check};

impl From<&HealthCheck> for proto::HealthCheck {
    fn from(check: &HealthCheck) -> Self {
        Self {
            probe: Some((&check.probe).into()),
            port: check.port.map(|port| port.get().into()),
            interval: Some(check.interval.into()),
            timeout: Some(check.timeout.into()),
            unhealthy_after: check.unhealthy_after.get(),
            healthy_after: check.healthy_after.get(),
            initially_unhealthy: check.initial == InitialHealth::Unhealthy,
            panic_percent: check.panic_percent,
        }
    }
}

impl From<&HealthProbe> for health_check::Probe {
    fn from(probe: &HealthProbe) -> Self {
        let text = |host: &Option<Hostname>| host.as_ref().map(|host| host.as_str().to_owned());
        match probe {
            HealthProbe::Http { path, host, expect } => Self::Http(proto::HttpProbe {
                path: path.as_str().to_owned(),
                host: text(host),
                expect: list(expect),
            }),
            HealthProbe::Grpc { host, service } => Self::Grpc(proto::GrpcProbe {
                host: text(host),
                service: service.clone(),
            }),
            HealthProbe::Tcp => Self::Tcp(proto::Unit {}),
        }
    }
}
