//! Lowers health checks. One with a problem is left out: an endpoint without a check serves as it did before.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use xds::model::{
    GatewayDuration, HealthCheck, HealthProbe, Hostname, InitialHealth, ProbePath, StatusRange,
};

use super::api::{HealthCheckSpec, HealthCheckType, InitialHealthSpec};
use super::limits::time;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers the health check of a policy; `Err` has every problem, with its field in the check.
pub(crate) fn lower(spec: &HealthCheckSpec) -> Result<HealthCheck, Vec<Problem>> {
    let mut reader = Reader::default();
    reader.refuse_fields_of_other_types(spec);
    let probe = reader.probe(spec);
    let interval = spec.interval.as_deref();
    let interval = reader.duration("interval", interval, INTERVAL, INTERVALS);
    let timeout = spec.timeout.as_deref();
    let timeout = reader.duration("timeout", timeout, TIMEOUT, TIMEOUTS);
    let unhealthy_after = reader.in_a_row("unhealthyAfter", spec.unhealthy_after, UNHEALTHY_AFTER);
    let healthy_after = reader.in_a_row("healthyAfter", spec.healthy_after, HEALTHY_AFTER);
    let panic_percent = spec.panic_percent.unwrap_or(PANIC_PERCENT);
    if panic_percent > 100 {
        let message = format!("{panic_percent} % is too large: use 0 to 100");
        reader.problem("panicPercent", message);
    }
    let check = HealthCheck {
        probe,
        port: spec.port,
        interval,
        timeout,
        unhealthy_after,
        healthy_after,
        initial: match spec.initial {
            InitialHealthSpec::Healthy => InitialHealth::Healthy,
            InitialHealthSpec::Unhealthy => InitialHealth::Unhealthy,
        },
        panic_percent,
    };
    if reader.problems.is_empty() {
        Ok(check)
    } else {
        Err(reader.problems)
    }
}

/// Reads fields, and collects their problems. A value with a problem is replaced by its default, so that all
/// others are read too.
#[derive(Default)]
struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    fn problem(&mut self, field: &str, why: impl std::fmt::Display) {
        let problem = Problem::new(Reason::Invalid, field, format!("{why}{LEFT_OUT}"));
        self.problems.push(problem);
    }

    /// What a field was meant for is not known if its type does not have it.
    fn refuse_fields_of_other_types(&mut self, spec: &HealthCheckSpec) {
        use HealthCheckType as Type;
        let fields = [
            ("path", spec.path.is_some(), &[Type::Http][..]),
            ("host", spec.host.is_some(), &[Type::Http, Type::Grpc]),
            ("expect", spec.expect.is_some(), &[Type::Http]),
            ("service", spec.service.is_some(), &[Type::Grpc]),
        ];
        for (field, is_set, types) in fields {
            if is_set && !types.contains(&spec.kind) {
                let (name, types) = (name(spec.kind), types.iter().copied().map(name));
                let types: Vec<&str> = types.collect();
                let types = types.join(" or ");
                let why = format!("type {name} has no {field}: leave it out, or set type {types}");
                self.problem(field, why);
            }
        }
    }

    fn probe(&mut self, spec: &HealthCheckSpec) -> HealthProbe {
        match spec.kind {
            HealthCheckType::Http => HealthProbe::Http {
                path: self.path(spec.path.as_deref().unwrap_or(ROOT)),
                host: self.host(spec.host.as_deref()),
                expect: self.expect(spec.expect.as_deref()),
            },
            HealthCheckType::Grpc => HealthProbe::Grpc {
                host: self.host(spec.host.as_deref()),
                service: self.service(spec.service.as_deref().unwrap_or_default()),
            },
            HealthCheckType::Tcp => HealthProbe::Tcp,
        }
    }

    fn path(&mut self, text: &str) -> ProbePath {
        ProbePath::parse(text).unwrap_or_else(|why| {
            self.problem("path", why);
            ProbePath::parse(ROOT).expect("a slash is a path")
        })
    }

    fn host(&mut self, text: Option<&str>) -> Option<Hostname> {
        let parsed = Hostname::parse_exact(text?);
        parsed.map_err(|why| self.problem("host", why)).ok()
    }

    fn expect(&mut self, texts: Option<&[String]>) -> Vec<StatusRange> {
        let Some(texts) = texts else {
            return StatusRange::of_answers(200, 200).into_iter().collect();
        };
        if !(1..=HealthCheck::MOST_STATUSES).contains(&texts.len()) {
            let (number, most) = (texts.len(), HealthCheck::MOST_STATUSES);
            self.problem("expect", format!("has {number} items: use 1 to {most}"));
        }
        let ranges = texts.iter().enumerate().filter_map(|(index, text)| {
            let range = StatusRange::parse_of_answers(text);
            let field = format!("expect[{index}]");
            range.map_err(|why| self.problem(&field, why)).ok()
        });
        ranges.collect()
    }

    fn service(&mut self, text: &str) -> String {
        let (bytes, most) = (text.len(), HealthCheck::MAX_SERVICE_BYTES);
        if bytes > most {
            self.problem("service", format!("has {bytes} bytes: use {most} or less"));
        }
        text.to_owned()
    }

    fn duration(
        &mut self,
        field: &str,
        text: Option<&str>,
        default: Duration,
        allowed: RangeInclusive<Duration>,
    ) -> Duration {
        let Some(text) = text else {
            return default;
        };
        match time(text, field) {
            Ok(given) if allowed.contains(&given) => return given,
            Ok(given) if given < *allowed.start() => {
                let least = GatewayDuration(*allowed.start());
                self.problem(field, format!("`{text}` is too short: use {least} or more"));
            }
            Ok(_) => {
                let most = GatewayDuration(*allowed.end());
                self.problem(field, format!("`{text}` is too long: use {most} or less"));
            }
            Err(problem) => self.problem(field, problem.message),
        }
        default
    }

    fn in_a_row(
        &mut self,
        field: &str,
        number: Option<NonZeroU32>,
        default: NonZeroU32,
    ) -> NonZeroU32 {
        let (number, most) = (number.unwrap_or(default), HealthCheck::MOST_IN_A_ROW);
        if number.get() > most {
            self.problem(field, format!("{number} is too large: use 1 to {most}"));
        }
        number
    }
}

/// The name of a type in a policy.
fn name(kind: HealthCheckType) -> &'static str {
    match kind {
        HealthCheckType::Http => "HTTP",
        HealthCheckType::Grpc => "GRPC",
        HealthCheckType::Tcp => "TCP",
    }
}

const ROOT: &str = "/";
/// Values of fields that are not set; the definition has the same ones.
const INTERVAL: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(2);
const UNHEALTHY_AFTER: NonZeroU32 = NonZeroU32::new(3).expect("not 0");
const HEALTHY_AFTER: NonZeroU32 = NonZeroU32::new(2).expect("not 0");
const PANIC_PERCENT: u32 = 30;
/// Those that are allowed.
const INTERVALS: RangeInclusive<Duration> =
    HealthCheck::LEAST_INTERVAL..=HealthCheck::MOST_INTERVAL;
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=HealthCheck::MOST_TIMEOUT;

/// What happens to a check with a problem.
const LEFT_OUT: &str = "; the health check is left out, the rest of the policy stays";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_without_fields_has_the_defaults_of_the_definition() {
        let check = lower(&HealthCheckSpec::default()).expect("a check");
        let definition =
            include_str!("../../../../k8s/crds/gateway-system.io_trafficpolicies.yaml");
        let (_, fields) = definition.split_once(" healthCheck:\n").expect("a field");
        for (field, default) in [
            ("interval", GatewayDuration(check.interval).to_string()),
            ("timeout", GatewayDuration(check.timeout).to_string()),
            ("unhealthyAfter", check.unhealthy_after.to_string()),
            ("healthyAfter", check.healthy_after.to_string()),
            ("panicPercent", check.panic_percent.to_string()),
        ] {
            let (_, described) = fields.split_once(&format!(" {field}:\n")).expect(field);
            let (_, given) = described.split_once("default: ").expect("a default");
            assert_eq!(given.lines().next(), Some(&*default), "{field}");
        }
    }

    /// An API server may have stored what its schema refuses by now.
    #[test]
    fn each_mistake_is_named_with_what_to_write() {
        let spec = HealthCheckSpec {
            kind: HealthCheckType::Tcp,
            path: Some("healthz".to_owned()),
            interval: Some("10ms".to_owned()),
            timeout: Some("soon".to_owned()),
            panic_percent: Some(101),
            ..HealthCheckSpec::default()
        };
        let problems = lower(&spec).expect_err("mistakes");
        let found: Vec<_> = problems
            .iter()
            .map(|it| (&*it.field, &*it.message))
            .collect();
        let fields: Vec<_> = found.iter().map(|(field, _)| *field).collect();
        assert_eq!(fields, ["path", "interval", "timeout", "panicPercent"]);
        let path = "type TCP has no path: leave it out, or set type HTTP";
        assert_eq!(found[0].1, format!("{path}{LEFT_OUT}"));
        assert_eq!(
            found[1].1,
            format!("`10ms` is too short: use 1s or more{LEFT_OUT}")
        );
        let too_long = HealthCheckSpec {
            interval: Some("1h1ms".to_owned()),
            timeout: Some("61s".to_owned()),
            ..HealthCheckSpec::default()
        };
        let problems = lower(&too_long).expect_err("mistakes");
        let messages: Vec<_> = problems.iter().map(|it| &*it.message).collect();
        let interval = format!("`1h1ms` is too long: use 1h or less{LEFT_OUT}");
        let timeout = format!("`61s` is too long: use 1m or less{LEFT_OUT}");
        assert_eq!(messages, [interval, timeout]);
        let http = HealthCheckSpec {
            expect: Some(vec!["200".to_owned(), "99".to_owned()]),
            host: Some("a:80".to_owned()),
            ..HealthCheckSpec::default()
        };
        let problems = lower(&http).expect_err("mistakes");
        let fields: Vec<_> = problems.iter().map(|it| &*it.field).collect();
        assert_eq!(fields, ["host", "expect[1]"]);
    }
}
