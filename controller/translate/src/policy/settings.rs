//! Lowers traffic policies.

use std::net::IpAddr;

use xds::model::{
    AccessLog, AccessLogFilter, Ejection, EscapedSlash, HealthPath, JwtSource, LogFormat,
    ObjectName, PathOptions, PathRewrite, PolicySpec, Precedence, ProxyProtocolIn,
    ProxyProtocolMode, RetryBudget, Trust,
};

use super::api::{
    AccessLogFormat, AccessLogSpec, EjectionSpec, EscapedSlashAction, JwtFromSpec, PathOptionsSpec,
    PolicyStanding, PrecedenceSpec, ProxyProtocolSpec, RejectedPolicy, TrafficPolicy,
    TrafficPolicySpec,
};
use super::basic_auth::ReadPasswords;
use super::bodies::Bodies;
use super::fields::is_without_effect;
use super::findings::{Findings, ReadEntries, with_consequence};
use super::limits::{limits, reduce, time};
use super::path_rewrite::{self, ANSWERED_UNTIL_THEN};
use super::precedence::REFUSED_UNTIL_THEN;
use super::{
    answer, api, api_keys, authorization, balance, basic_auth, error_pages, health_check, jwt,
    networks, rate_limit,
};
use crate::backend::referrer::{Referrer, TrafficKind};
use crate::network::unmapped;
use crate::objects::reader::Reader;
use crate::status::problem;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// A lowered policy, independent of its targets.
pub(crate) struct LoweredPolicy {
    /// The settings that take effect if the policy is accepted.
    pub(crate) spec: PolicySpec,
    /// Why it is rejected.
    pub(crate) refusal: Option<Problem>,
    /// Numbers that are larger than the maximum, which takes effect in their place.
    pub(crate) reduced: Vec<Problem>,
    /// What is left out because it is invalid, while all else stays.
    pub(crate) left_out: Vec<Problem>,
    /// Unresolved references, of its JWT settings and to lists.
    pub(crate) refs: Vec<Problem>,
    /// What it has read.
    pub(crate) read: ReadEntries,
}

/// Lowers the policy `name`, which has read `before`. Access restrictions take effect even if the
/// policy is rejected; one that is invalid refuses every request.
pub(crate) fn lower(
    reader: &Reader<'_>,
    name: &ObjectName,
    object: &TrafficPolicy,
    before: Option<&ReadEntries>,
) -> LoweredPolicy {
    let hidden = match &object.standing {
        PolicyStanding::Rejected(rejected) => return without_version(rejected),
        PolicyStanding::Admitted => Vec::new(),
        PolicyStanding::Kept(later) => token_sources(later),
    };
    let (spec, precedence) = (&object.spec, precedence(&object.spec));
    let (mut lowered, mut refusal) = match all_but_restrictions(spec) {
        Ok(others) => (others, None),
        Err(problem) => (PolicySpec::default(), Some(problem)),
    };
    // Its limits are bounds, and would be lost.
    let has_bounds = precedence == Precedence::Overrides && spec.limits.is_some();
    let invalid = refusal.take_if(|_| has_bounds).map(refused_until_then);
    let reduced = reduce(&mut lowered.limits);
    lowered.hidden = hidden;
    lowered.precedence = precedence;
    let mut findings = Findings {
        invalid,
        ..Findings::default()
    };
    restrict(
        reader,
        &name.namespace,
        spec,
        before,
        (&mut lowered, &mut findings),
    );
    match spec.health_check.as_ref().map(health_check::lower) {
        Some(Ok(check)) => lowered.health_check = Some(check),
        Some(Err(problems)) => {
            let of_check = problems.into_iter().map(|it| it.under("spec.healthCheck"));
            findings.left_out.extend(of_check);
        }
        None => {}
    }
    spread(spec, (&mut lowered, &mut findings));
    refusal = refusal.or(findings.invalid_rewrite);
    if let Some(invalid) = findings.invalid {
        lowered = PolicySpec {
            precedence,
            ..refusing(object, lowered.hidden)
        };
        refusal = Some(invalid);
    }
    if is_without_effect(&lowered) && refusal.is_none() {
        refusal = all_left_out(&std::mem::take(&mut findings.left_out));
    }
    LoweredPolicy {
        spec: lowered,
        refusal,
        reduced,
        left_out: health_path(spec)
            .err()
            .into_iter()
            .chain(findings.left_out)
            .collect(),
        refs: findings.refs,
        read: findings.read,
    }
}

/// Lowers what restricts access, what the gateway answers, and what backends rely on.
fn restrict(
    reader: &Reader<'_>,
    namespace: &str,
    spec: &TrafficPolicySpec,
    before: Option<&ReadEntries>,
    (lowered, findings): (&mut PolicySpec, &mut Findings),
) {
    let from = Referrer::of::<TrafficPolicy>(namespace, TrafficKind::Requests);
    let known = before.map(|before| &before.passwords);
    credentials((reader, from), spec, known, (&mut *lowered, &mut *findings));
    if let Some(authorization) = &spec.authorization {
        let (policy, problems) = authorization::lower(authorization);
        findings.refuse("spec.authorization", problems);
        lowered.authorization = Some(policy);
    }
    if let Some(networks) = &spec.networks {
        let read = before.map(|before| &before.networks);
        let networks = networks::lower(reader, namespace, networks, read);
        findings.refuse("spec.networks", networks.problems);
        findings.unresolved("spec.networks", networks.refs);
        findings.read.networks = networks.read;
        lowered.networks = Some(networks.policy);
    }
    if let Some(rate_limit) = &spec.rate_limit {
        let (policy, problems) = rate_limit::lower(rate_limit);
        findings.refuse("spec.rateLimit", problems);
        lowered.rate_limit = Some(policy);
    }
    if let Some(rewrite) = &spec.path_rewrite {
        let (rewrite, problems) = path_rewrite::lower(rewrite);
        findings.invalid_rewrite =
            with_consequence("spec.pathRewrite", problems, ANSWERED_UNTIL_THEN);
        lowered.path_rewrite = Some(rewrite);
    }
    let known = before.map(|before| &before.bodies);
    let mut bodies = Bodies::new(reader, namespace, known);
    if let Some(respond) = &spec.respond {
        let (policy, problems) = answer::lower(respond, lowered.precedence, &mut bodies);
        findings.refuse("spec.respond", problems);
        findings.unresolved("spec.respond", std::mem::take(&mut bodies.refs));
        lowered.respond = Some(policy);
    }
    if let Some(pages) = &spec.error_pages {
        let (pages, problems) = error_pages::lower(from, pages, &mut bodies);
        let of_pages = |problem: Problem| Problem {
            field: format!("spec.errorPages{}", problem.field),
            ..problem
        };
        findings.left_out.extend(problems.into_iter().map(of_pages));
        findings
            .refs
            .extend(std::mem::take(&mut bodies.refs).into_iter().map(of_pages));
        lowered.error_pages = pages;
    }
    findings.read.bodies = bodies.read;
}

/// Lowers how clients authenticate themselves: the credentials of one policy, which have to fit together.
fn credentials(
    (reader, from): (&Reader<'_>, Referrer<'_>),
    spec: &TrafficPolicySpec,
    before: Option<&ReadPasswords>,
    (lowered, findings): (&mut PolicySpec, &mut Findings),
) {
    if let Some(jwt) = &spec.jwt {
        let jwt = jwt::lower(reader, from, jwt);
        findings.refuse("spec.jwt", jwt.problems);
        findings.unresolved("spec.jwt", jwt.refs);
        lowered.jwt = Some(jwt.policy);
    }
    if let Some(keys) = &spec.api_keys {
        let keys = api_keys::lower(reader, from, keys, lowered.jwt.as_ref());
        findings.refuse("spec.apiKeys", keys.problems);
        findings.unresolved("spec.apiKeys", keys.refs);
        lowered.api_keys = Some(keys.policy);
    }
    lowered.require_all = spec.require_all == Some(true);
    if let Some(passwords) = &spec.basic_auth {
        let passwords = basic_auth::lower(reader, from, passwords, lowered, before);
        findings.refuse("spec.basicAuth", passwords.problems);
        findings.unresolved("spec.basicAuth", passwords.refs);
        findings.read.passwords = passwords.read;
        lowered.basic_auth = Some(passwords.policy);
    }
}

/// How requests are spread over endpoints. What is invalid is left out: requests are served without it.
fn spread(spec: &TrafficPolicySpec, (lowered, findings): (&mut PolicySpec, &mut Findings)) {
    if let Some(spec) = &spec.balance {
        let (balance, problems) = balance::lower(spec);
        let of_balance = |problem: Problem| Problem {
            field: format!("spec.balance{}", problem.field),
            ..problem
        };
        let problems = problems.into_iter().map(of_balance);
        findings.left_out.extend(problems);
        lowered.balance = balance;
    }
}

/// Why nothing of a policy is left.
fn all_left_out(problems: &[Problem]) -> Option<Problem> {
    let first = problems.first()?;
    let message = match problems {
        [only] => only.message.clone(),
        all => problem::join(all.iter()),
    };
    Some(Problem {
        message,
        ..first.clone()
    })
}

/// Which of two policies wins.
pub(crate) fn precedence(spec: &TrafficPolicySpec) -> Precedence {
    match spec.precedence.unwrap_or_default() {
        PrecedenceSpec::Defaults => Precedence::Defaults,
        PrecedenceSpec::Overrides => Precedence::Overrides,
    }
}

fn refused_until_then(problem: Problem) -> Problem {
    let message = problem.message.clone() + REFUSED_UNTIL_THEN;
    Problem { message, ..problem }
}

/// What refuses every client, in the place of a policy with a restriction that cannot be enforced.
fn refusing(object: &TrafficPolicy, mut hidden: Vec<JwtSource>) -> PolicySpec {
    // Including the sources of providers that are invalid.
    hidden.extend(token_sources(&object.token_sources()));
    PolicySpec {
        is_invalid: true,
        closes_connections: object.spec.networks.is_some(),
        hidden,
        ..PolicySpec::default()
    }
    .refusing_all()
}

/// A policy of which no version was ever valid.
fn without_version(rejected: &RejectedPolicy) -> LoweredPolicy {
    if !rejected.restricts.any() {
        return without_rewrite();
    }
    let hidden = token_sources(&rejected.token_sources);
    let RejectedPolicy {
        restricts,
        has_unknown,
        ..
    } = rejected;
    let message = "no version of the policy is valid: until then every request of its targets gets \
                   status 503 (policy_invalid)";
    LoweredPolicy {
        spec: PolicySpec {
            is_invalid: true,
            precedence: if restricts.overrides {
                Precedence::Overrides
            } else {
                Precedence::Defaults
            },
            closes_connections: restricts.networks || *has_unknown,
            hidden,
            ..PolicySpec::default()
        }
        .refusing_all(),
        refusal: Some(Problem::new(Reason::Invalid, "", message)),
        reduced: Vec::new(),
        left_out: Vec::new(),
        refs: Vec::new(),
        read: ReadEntries::default(),
    }
}

/// A policy that rewrites paths, and of which no version was ever valid.
fn without_rewrite() -> LoweredPolicy {
    let message = format!("no version of the policy is valid{ANSWERED_UNTIL_THEN}");
    LoweredPolicy {
        spec: PolicySpec {
            path_rewrite: Some(PathRewrite::Invalid),
            ..PolicySpec::default()
        },
        refusal: Some(Problem::new(Reason::Invalid, "", message)),
        reduced: Vec::new(),
        left_out: Vec::new(),
        refs: Vec::new(),
        read: ReadEntries::default(),
    }
}

/// The places of tokens, without those that are invalid.
fn token_sources(specs: &[JwtFromSpec]) -> Vec<JwtSource> {
    let sources = specs.iter().flat_map(|spec| {
        let header = spec.header.as_ref();
        let header = header.and_then(|header| jwt::header(header).ok());
        let query = spec.query.clone().map(JwtSource::Query);
        let cookie = spec.cookie.clone().map(JwtSource::Cookie);
        header.into_iter().chain(query).chain(cookie)
    });
    sources.collect()
}

fn all_but_restrictions(spec: &TrafficPolicySpec) -> Result<PolicySpec, Problem> {
    let budget = spec.retry_budget.map(|budget| RetryBudget {
        percent: budget.percent,
        floor: budget.floor,
    });
    Ok(PolicySpec {
        access_log: spec.access_log.as_ref().map(access_log).transpose()?,
        limits: spec
            .limits
            .as_ref()
            .map(limits)
            .transpose()?
            .unwrap_or_default(),
        trust: trust(spec)?,
        proxy_protocol: spec
            .proxy_protocol
            .as_ref()
            .map(proxy_protocol)
            .transpose()?,
        path_options: spec.path_options.map(path_options),
        health_path: health_path(spec).unwrap_or_default(),
        retry_budget: budget,
        ejection: spec.ejection.as_ref().map(ejection).transpose()?,
        ..PolicySpec::default()
    })
}

fn access_log(spec: &AccessLogSpec) -> Result<AccessLog, Problem> {
    if !(0.0..=1.0).contains(&spec.sample) {
        let message = format!(
            "{} is not a fraction of the requests: use 0 to 1",
            spec.sample
        );
        return Err(invalid("spec.accessLog.sample", message));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and a million by the check above"
    )]
    let sample_per_million = (spec.sample * 1e6).round() as u32;
    let at_least = spec.filter.duration_at_least.as_deref();
    let at_least = at_least.map(|text| time(text, "spec.accessLog.filter.durationAtLeast"));
    Ok(AccessLog {
        off: spec.off,
        format: match spec.format {
            AccessLogFormat::Text => LogFormat::Text,
            AccessLogFormat::Json => LogFormat::Json,
        },
        sample_per_million,
        filter: AccessLogFilter {
            status_at_least: spec.filter.status_at_least,
            duration_at_least: at_least.transpose()?,
        },
    })
}

fn trust(spec: &TrafficPolicySpec) -> Result<Option<Trust>, Problem> {
    match (spec.trusted_hops, &spec.trusted_sources) {
        (None, None) => Ok(None),
        (Some(hops), None) => Ok(Some(Trust::Hops(hops))),
        (None, Some(sources)) => {
            let sources = networks(sources, "spec.trustedSources")?;
            Ok(Some(Trust::Sources(sources)))
        }
        (Some(_), Some(_)) => {
            let message = "trustedHops and trustedSources are mutually exclusive: keep one of them";
            Err(invalid("spec.trustedHops", message))
        }
    }
}

fn proxy_protocol(spec: &ProxyProtocolSpec) -> Result<ProxyProtocolIn, Problem> {
    Ok(ProxyProtocolIn {
        mode: match spec.inbound {
            api::ProxyProtocolIn::Off => ProxyProtocolMode::Off,
            api::ProxyProtocolIn::Optional => ProxyProtocolMode::Optional,
            api::ProxyProtocolIn::Required => ProxyProtocolMode::Required,
        },
        trusted_sources: networks(&spec.trusted_sources, "spec.proxyProtocol.trustedSources")?,
    })
}

/// One that no request can have is left out: it protects nothing, and must not cost what does.
fn health_path(spec: &TrafficPolicySpec) -> Result<Option<HealthPath>, Problem> {
    let path = spec.health_path.as_deref().map(HealthPath::parse);
    path.transpose().map_err(|error| {
        invalid(
            "spec.healthPath",
            format!("it is not in effect, since {error}"),
        )
    })
}

fn path_options(spec: PathOptionsSpec) -> PathOptions {
    PathOptions {
        merge_slashes: spec.merge_slashes,
        escaped_slash: match spec.escaped_slash {
            EscapedSlashAction::Keep => EscapedSlash::Keep,
            EscapedSlashAction::Reject => EscapedSlash::Reject,
        },
    }
}

fn ejection(spec: &EjectionSpec) -> Result<Ejection, Problem> {
    let base = time(&spec.base, "spec.ejection.base")?;
    let max = time(&spec.max, "spec.ejection.max")?;
    if max < base {
        let message = "the longest ejection is shorter than the first: make it longer";
        return Err(invalid("spec.ejection.max", message));
    }
    if spec.max_percent > 100 {
        let message = format!("{} % is too large: use 0 to 100", spec.max_percent);
        return Err(invalid("spec.ejection.maxPercent", message));
    }
    Ok(Ejection {
        consecutive_failures: spec.consecutive_failures,
        base,
        max,
        max_percent: spec.max_percent,
    })
}

fn networks(texts: &[String], list: &str) -> Result<Vec<(IpAddr, u8)>, Problem> {
    let parsed = texts.iter().enumerate().map(|(index, text)| {
        network(text).ok_or_else(|| {
            let message = format!("`{text}` is not a network: use a form such as `10.0.0.0/8`");
            invalid(&format!("{list}[{index}]"), message)
        })
    });
    parsed.collect()
}

/// An address with a prefix length.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let length: u8 = length.parse().ok()?;
    (length <= bits).then(|| unmapped(address, length))
}

fn invalid(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Invalid, field, message)
}
