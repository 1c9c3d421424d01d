//! Trace events of policies and filters: which apply, and what they did.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use admin_types::trace::{Message, PolicyOutcome, Severity};

use super::Tracer;
use crate::config::{Rule, RuleBackend, RuleExtras, Sessions};
use crate::failure::{Failure, FailureKind};
use crate::limits::Limits;
use crate::policy::answer::{Decision, PageServer, PageSource, Respond};
use crate::policy::authorization::Verdict;
use crate::policy::client_networks::{ClientNetworks, Outside};
use crate::policy::compiled::BackendPolicy;
use crate::policy::external_auth::{self, MissingVerdict};
use crate::policy::normalise::Target;
use crate::policy::path_rewrite::{BadRewrite, Rewritten};
use crate::policy::rate_limit::Counted;

/// The effect of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyEffect {
    /// The policy had this effect.
    Applied(&'static str),
    /// Why it did nothing.
    Skipped(&'static str),
}

impl Tracer {
    /// The policies of a rule, whichever backend is selected. One later event reports the effect of
    /// each.
    #[cold]
    pub(crate) fn policies(&self, rule: &Rule) {
        let responses = rule.responses.as_deref();
        let filters = || rule.backends.iter().filter_map(|it| it.policy.as_deref());
        let cors = responses.is_some_and(|it| it.cors.is_some());
        let redirect = responses.is_some_and(|it| it.redirect.is_some());
        let backend_has_auth = || {
            rule.backends
                .iter()
                .any(|it| !it.external_auth().is_empty())
        };
        let has_external_auth = !rule.external_auth.is_empty() || backend_has_auth();
        let enforces_answers = |it: &RuleExtras| !it.enforced_answers.is_empty();
        let has_answer = rule.extras.as_deref().is_some_and(enforces_answers)
            || responses.is_some_and(|it| !it.responds.is_empty());
        let first = [
            (LIMITS, has_limits(rule)),
            (NETWORKS, !rule.networks.is_empty()),
            (JWT, rule.credentials().is_some_and(|it| it.jwt.is_some())),
            (
                BASIC_AUTH,
                rule.credentials().is_some_and(|it| it.basic_auth.is_some()),
            ),
            (
                API_KEYS,
                rule.credentials().is_some_and(|it| it.api_keys.is_some()),
            ),
            (AUTHORIZATION, !rule.authorization.is_empty()),
            (RATE_LIMIT, rule.rate_limits.is_some()),
            (EXTERNAL_AUTH, has_external_auth),
            (RESPOND, has_answer),
            (ERROR_PAGES, rule.error_pages().is_some()),
            ("cors", cors || filters().any(|it| it.cors.is_some())),
            (
                "redirect",
                redirect || filters().any(|it| it.redirect.is_some()),
            ),
        ];
        let of_backends = FILTERS.map(|(kind, has)| (kind, filters().any(has)));
        let last = [
            (REQUEST_TIMEOUT, rule.request_timeout().is_some()),
            (BACKEND_TIMEOUT, rule.backend_timeout().is_some()),
            (RETRY, rule.retry.is_some()),
            ("sessionPersistence", rule.sessions != Sessions::None),
            ("accessLog", !rule.access_log.off),
        ];
        let all = first.into_iter().chain(of_backends).chain(last);
        let holds = all.filter(|(_, holds)| *holds);
        let names: Vec<_> = holds.map(|(name, _)| name).collect();
        let policies = names.iter().map(|name| (*name).to_owned()).collect();
        self.unreported.replace(names);
        self.emit(Severity::Info, Message::PolicySelection { policies });
        self.policy(LIMITS, PolicyEffect::Applied("in effect"));
    }

    /// The request is refused by a policy (`kind/namespace/name`) that is invalid.
    #[cold]
    pub(crate) fn invalid_policy(&self, policy: &str) {
        let message = Message::AuthorizationResult {
            by: policy.to_owned(),
            allowed: false,
            detail: "the policy is invalid, and restricts access: its status says why".to_owned(),
        };
        self.emit(Severity::Error, message);
    }

    /// The rule of the request is invalid, so that it has no backend.
    #[cold]
    pub(crate) fn invalid_rule(&self, why: &str) {
        let message = Message::Policy {
            kind: "rule".to_owned(),
            outcome: PolicyOutcome::Skipped,
            detail: format!("the rule is invalid: {why}"),
        };
        self.emit(Severity::Error, message);
    }

    /// Whether networks accept a client, by each policy up to the one that does not.
    #[cold]
    pub(crate) fn networks(&self, client: IpAddr, policies: &[Arc<ClientNetworks>]) {
        self.take_unreported(NETWORKS);
        for networks in policies {
            let result = networks.lists.check(client);
            self.networks_of(&networks.policy, client, result);
            if result.is_err() {
                return;
            }
        }
    }

    fn networks_of(&self, policy: &str, client: IpAddr, result: Result<(), Outside>) {
        let (severity, detail) = match result {
            Ok(()) => (Severity::Success, format!("{client} is accepted")),
            Err(Outside::ListMissing) => (
                Severity::Error,
                "list_missing: the policy's status says which list".to_owned(),
            ),
            Err(outside) => (Severity::Error, format!("{}: {client}", outside.reason())),
        };
        let message = Message::AuthorizationResult {
            by: format!("{NETWORKS} {policy}"),
            allowed: result.is_ok(),
            detail,
        };
        self.emit(severity, message);
    }

    /// The result of an authorization policy (`kind/namespace/name`), and the decisive rule.
    #[cold]
    pub(crate) fn authorization(&self, policy: &str, verdict: &Verdict<'_>) {
        let mut detail = match (verdict.result, verdict.rule) {
            (Ok(()), Some(rule)) => format!("allowed by `{rule}`"),
            (Ok(()), None) => "no rule denies it".to_owned(),
            (Err(forbidden), Some(rule)) => format!("{}: `{rule}`", forbidden.reason()),
            (Err(forbidden), None) => forbidden.reason().to_owned(),
        };
        for (rule, why) in &verdict.errors {
            let _ = write!(detail, "; `{rule}` cannot be evaluated: {why}");
        }
        let allowed = verdict.result.is_ok();
        let severity = if allowed {
            Severity::Success
        } else {
            Severity::Error
        };
        self.take_unreported(AUTHORIZATION);
        let message = Message::AuthorizationResult {
            by: format!("{AUTHORIZATION} {policy}"),
            allowed,
            detail,
        };
        self.emit(severity, message);
    }

    /// What the rules of rate limits said at one moment.
    #[cold]
    pub(crate) fn rate_limit(&self, counted: &Counted<'_>) {
        let mut detail = String::new();
        let mut last = None;
        for (policy, rule, what) in &counted.explanations {
            let separator = if detail.is_empty() { "" } else { "; " };
            detail.push_str(separator);
            if last.replace(policy) != Some(policy) {
                let _ = write!(detail, "{policy}: ");
            }
            let _ = write!(detail, "`{rule}` {what}");
        }
        self.take_unreported(RATE_LIMIT);
        let allowed = counted.refusal.is_none();
        let severity = if allowed {
            Severity::Success
        } else {
            Severity::Error
        };
        let message = Message::AuthorizationResult {
            by: RATE_LIMIT.to_owned(),
            allowed,
            detail,
        };
        self.emit(severity, message);
    }

    /// What a policy with an answer decided, and why the exception cannot be evaluated if so.
    #[cold]
    pub(crate) fn respond(&self, answer: &Respond, decision: Decision, why: Option<&str>) {
        let (policy, status) = (answer.policy(), answer.status().as_u16());
        let (outcome, detail) = match decision {
            Decision::Answered if answer.has_exception() => (
                PolicyOutcome::Applied,
                format!("{policy} answers with {status}: the request is no exception"),
            ),
            Decision::Answered => (
                PolicyOutcome::Applied,
                format!("{policy} answers with {status}"),
            ),
            Decision::NotEvaluated => (
                PolicyOutcome::Applied,
                format!(
                    "{policy} answers with {status}: its exception cannot be evaluated: {}",
                    why.unwrap_or_default()
                ),
            ),
            Decision::Excepted => (
                PolicyOutcome::Skipped,
                format!("{policy}: the request is an exception, and goes on"),
            ),
        };
        self.take_unreported(RESPOND);
        let message = Message::Policy {
            kind: RESPOND.to_owned(),
            outcome,
            detail,
        };
        self.emit(Severity::Info, message);
    }

    /// That a page took the place of the content of an error.
    #[cold]
    pub(crate) fn error_page(&self, policy: &str, status: u16, source: PageSource) {
        let error = whose(status, source);
        self.page(Severity::Info, format!("{policy} has a page for {error}"));
    }

    /// That a server was to have the page of an error, and why that failed if it did.
    #[cold]
    pub(crate) fn served_page(
        &self,
        policy: &str,
        (status, source): (u16, PageSource),
        server: &PageServer,
        failed: Option<&str>,
    ) {
        let (error, name) = (whose(status, source), &server.name);
        let (severity, detail) = match failed {
            None => (
                Severity::Info,
                format!("{policy} has a page of {name} for {error}"),
            ),
            Some(why) => (
                Severity::Warn,
                format!(
                    "{policy} has no page of {name} for {error}, which gets a text of the gateway: {why}"
                ),
            ),
        };
        self.page(severity, detail);
    }

    fn page(&self, severity: Severity, detail: String) {
        self.take_unreported(ERROR_PAGES);
        let message = Message::Policy {
            kind: ERROR_PAGES.to_owned(),
            outcome: PolicyOutcome::Applied,
            detail,
        };
        self.emit(severity, message);
    }

    /// Whether an authorization server allows the request.
    #[cold]
    pub(crate) fn external_auth(
        &self,
        server: &str,
        verdict: &Result<external_auth::Verdict, MissingVerdict>,
    ) {
        let (severity, detail) = match verdict {
            Ok(external_auth::Verdict::Allowed { .. }) => (Severity::Success, "allowed".to_owned()),
            Ok(external_auth::Verdict::Denied(denial)) => {
                let status = denial.status.as_u16();
                (Severity::Error, format!("denied with {status}"))
            }
            Err(MissingVerdict(why)) => (Severity::Error, format!("no decision: {why}")),
        };
        self.take_unreported(EXTERNAL_AUTH);
        let message = Message::AuthorizationResult {
            by: format!("{EXTERNAL_AUTH} {server}"),
            allowed: severity == Severity::Success,
            detail,
        };
        self.emit(severity, message);
    }

    /// The effect of a policy or filter, or why it had none; reported once for each.
    #[cold]
    pub(crate) fn policy(&self, kind: &'static str, did: PolicyEffect) {
        if !self.take_unreported(kind) {
            return;
        }
        let (outcome, detail) = match did {
            PolicyEffect::Applied(what) => (PolicyOutcome::Applied, what),
            PolicyEffect::Skipped(why) => (PolicyOutcome::Skipped, why),
        };
        let message = Message::Policy {
            kind: kind.to_owned(),
            outcome,
            detail: detail.to_owned(),
        };
        self.emit(Severity::Info, message);
    }

    /// The path before and after its rewrite. Queries may have secrets, and are left out.
    #[cold]
    pub(crate) fn path_rewrite(
        &self,
        before: Target<'_>,
        result: Result<Rewritten, BadRewrite>,
        after: &[u8],
    ) {
        if !self.take_unreported(PATH_REWRITE) {
            return;
        }
        let before = before.path();
        let after = after.split(|byte| *byte == b'?').next().unwrap_or_default();
        let (severity, outcome, detail) = match result {
            Ok(Rewritten::Changed) => {
                let after = String::from_utf8_lossy(after);
                (
                    Severity::Info,
                    PolicyOutcome::Applied,
                    format!("{before} became {after}"),
                )
            }
            Ok(Rewritten::Unchanged) => {
                let detail = format!("the pattern does not match {before}");
                (Severity::Info, PolicyOutcome::Skipped, detail)
            }
            Err(why) => {
                let detail = format!("{before} cannot be rewritten: {why}");
                (Severity::Error, PolicyOutcome::Applied, detail)
            }
        };
        let kind = PATH_REWRITE.to_owned();
        self.emit(
            severity,
            Message::Policy {
                kind,
                outcome,
                detail,
            },
        );
    }

    /// Whether the request has a valid session.
    #[cold]
    pub(crate) fn session(&self, is_pinned: bool) {
        let did = if is_pinned {
            PolicyEffect::Applied("the request follows its session")
        } else {
            PolicyEffect::Skipped("the request has no valid session")
        };
        self.policy("sessionPersistence", did);
    }

    /// The filters of the selected backend.
    #[cold]
    pub(crate) fn backend_filters(&self, backend: &RuleBackend) {
        let policy = backend.policy.as_deref();
        for (kind, has) in FILTERS {
            let did = if policy.is_some_and(has) {
                PolicyEffect::Applied("")
            } else {
                PolicyEffect::Skipped(OTHER_BACKEND)
            };
            self.policy(kind, did);
        }
    }

    /// Reports the effects that are known only at the end, and those that never happened.
    pub(super) fn settle_policies(&self, retries: u32, failure: Option<Failure>) {
        let ran_out = failure.is_some_and(|it| it.kind == FailureKind::RequestTimeout);
        let unreported = self.unreported.borrow().clone();
        for kind in unreported {
            let did = match kind {
                ERROR_PAGES => {
                    PolicyEffect::Skipped("the response has no status that a page is for")
                }
                _ if self.attempts == 0 => PolicyEffect::Skipped("the request reached no backend"),
                REQUEST_TIMEOUT if ran_out => PolicyEffect::Applied("expired"),
                REQUEST_TIMEOUT => PolicyEffect::Applied("did not expire"),
                BACKEND_TIMEOUT => PolicyEffect::Applied("it applied to each attempt"),
                RETRY if retries > 0 => PolicyEffect::Applied("there was more than one attempt"),
                RETRY => PolicyEffect::Skipped("the first attempt was the last"),
                _ => PolicyEffect::Skipped(OTHER_BACKEND),
            };
            self.policy(kind, did);
        }
    }

    /// Whether it applies and was not reported yet.
    pub(super) fn take_unreported(&self, kind: &str) -> bool {
        let mut unreported = self.unreported.borrow_mut();
        let at = unreported.iter().position(|it| *it == kind);
        at.map(|at| unreported.remove(at)).is_some()
    }
}

/// An error, for people.
fn whose(status: u16, source: PageSource) -> String {
    let whose = match source {
        PageSource::Gateway => "the gateway's",
        PageSource::Backend => "the backend's",
    };
    format!("{whose} {status}")
}

/// Whether limits other than the defaults apply.
fn has_limits(rule: &Rule) -> bool {
    let default = Limits::default();
    let of_backend = |it: &RuleBackend| {
        it.limits.connect_timeout != default.connect_timeout
            || it.limits.response_head_timeout != default.response_head_timeout
    };
    *rule.limits != default || rule.backends.iter().any(of_backend)
}

/// Filters that affect a request to a backend, or its response.
const FILTERS: [(&str, BackendPolicyTest); 5] = [
    ("rewrite", |it| it.rewrite.is_some()),
    (PATH_REWRITE, |it| it.path_rewrite.is_some()),
    ("requestHeaders", |it| !it.request_headers.is_empty()),
    ("responseHeaders", |it| !it.response_headers.is_empty()),
    ("mirror", |it| !it.mirrors.is_empty()),
];

type BackendPolicyTest = fn(&BackendPolicy) -> bool;

const LIMITS: &str = "limits";
const NETWORKS: &str = "networks";
pub(super) const JWT: &str = "jwt";
pub(super) const BASIC_AUTH: &str = "basicAuth";
pub(super) const API_KEYS: &str = "apiKeys";
const AUTHORIZATION: &str = "authorization";
const EXTERNAL_AUTH: &str = "externalAuth";
const RATE_LIMIT: &str = "rateLimit";
const RESPOND: &str = "respond";
const ERROR_PAGES: &str = "errorPages";
const PATH_REWRITE: &str = "pathRewrite";
const REQUEST_TIMEOUT: &str = "requestTimeout";
const BACKEND_TIMEOUT: &str = "backendRequestTimeout";
const RETRY: &str = "retry";

/// Why a filter of the rule has no effect.
const OTHER_BACKEND: &str = "it belongs to another backend";
