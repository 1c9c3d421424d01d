//! Health checks.

use std::num::NonZeroU32;
use std::time::Duration;

use super::answer::within;
use super::field_path::FieldPath;
use super::value::{at_most, exact_hostname, non_zero, port, positive_duration};
use crate::model::{HealthCheck, HealthProbe, Hostname, InitialHealth, ProbePath, StatusRange};
use crate::proto::{self, health_check};

pub(super) fn health_check(at: &FieldPath<'_>, message: proto::HealthCheck) -> Option<HealthCheck> {
    let probe = match message.probe {
        Some(probe) => self::probe(at, probe),
        None => at.field("probe").record_missing_choice(),
    };
    let port = at.optional("port", message.port, port);
    let interval = at.required("interval", message.interval, interval);
    let timeout = at.required("timeout", message.timeout, timeout);
    let unhealthy_after = in_a_row(&at.field("unhealthy_after"), message.unhealthy_after);
    let healthy_after = in_a_row(&at.field("healthy_after"), message.healthy_after);
    let panic_percent = at_most(&at.field("panic_percent"), message.panic_percent, 100);
    Some(HealthCheck {
        probe: probe?,
        port: port?,
        interval: interval?,
        timeout: timeout?,
        unhealthy_after: unhealthy_after?,
        healthy_after: healthy_after?,
        initial: if message.initially_unhealthy {
            InitialHealth::Unhealthy
        } else {
            InitialHealth::Healthy
        },
        panic_percent: panic_percent?,
    })
}

fn probe(at: &FieldPath<'_>, message: health_check::Probe) -> Option<HealthProbe> {
    match message {
        health_check::Probe::Http(message) => http(&at.field("http"), message),
        health_check::Probe::Grpc(message) => grpc(&at.field("grpc"), message),
        health_check::Probe::Tcp(proto::Unit {}) => Some(HealthProbe::Tcp),
    }
}

fn http(at: &FieldPath<'_>, message: proto::HttpProbe) -> Option<HealthProbe> {
    let path = at.parsed("path", &message.path, ProbePath::parse);
    let host = at.optional("host", message.host, host);
    let number = message.expect.len();
    let expect = at.list("expect", message.expect, |at, range| {
        at.accept(StatusRange::of_answers(range.first, range.last))
    });
    within(&at.field("expect"), number, HealthCheck::MOST_STATUSES)?;
    Some(HealthProbe::Http {
        path: path?,
        host: host?,
        expect: expect?,
    })
}

fn grpc(at: &FieldPath<'_>, message: proto::GrpcProbe) -> Option<HealthProbe> {
    let host = at.optional("host", message.host, host);
    let (bytes, most) = (message.service.len(), HealthCheck::MAX_SERVICE_BYTES);
    if bytes > most {
        return at
            .field("service")
            .problem(format!("has {bytes} bytes: use {most} or less"));
    }
    Some(HealthProbe::Grpc {
        host: host?,
        service: message.service,
    })
}

fn host(at: &FieldPath<'_>, text: String) -> Option<Hostname> {
    exact_hostname(at, &text)
}

fn interval(at: &FieldPath<'_>, message: proto::Duration) -> Option<Duration> {
    let interval = positive_duration(at, message)?;
    if interval < HealthCheck::LEAST_INTERVAL {
        return at.problem("is too short: use 1 second or more");
    }
    if interval > HealthCheck::MOST_INTERVAL {
        return at.problem("is too long: use 1 hour or less");
    }
    Some(interval)
}

fn timeout(at: &FieldPath<'_>, message: proto::Duration) -> Option<Duration> {
    let timeout = positive_duration(at, message)?;
    if timeout > HealthCheck::MOST_TIMEOUT {
        return at.problem("is too long: use 60 seconds or less");
    }
    Some(timeout)
}

fn in_a_row(at: &FieldPath<'_>, number: u32) -> Option<NonZeroU32> {
    at_most(at, number, HealthCheck::MOST_IN_A_ROW).and_then(|number| non_zero(at, number))
}
