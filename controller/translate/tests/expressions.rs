//! The regular expressions of routes: what they may take, and that they are compiled once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use translate::budgets::{Budget, Limits};
use translate::files::{Source, admit};
use translate::status::{ConditionStatus, ConditionType, Status};
use translate::{
    Delta, Event, Object, Options, Translation, Translator, translate as translate_all,
};
use xds::model::{Model, PathMatch, Pattern, PatternBudget, RouteRule, StringMatch};

/// One test at a time: they count the compilations of the process.
fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn objects(text: &str) -> Vec<Object> {
    let admitted = admit(&[Source::new("case.yaml", text)]);
    assert!(admitted.findings.is_empty(), "{:?}", admitted.findings);
    let objects = admitted.objects.into_iter();
    objects.map(|(object, _)| object).collect()
}

fn translated(text: &str) -> Translation {
    translate_all(&objects(text).into_iter().collect(), &Options::machine())
}

/// The expressions of a model, each once.
fn expressions(model: &Model) -> BTreeMap<String, Pattern> {
    let mut found = BTreeMap::new();
    let mut take = |pattern: &Pattern| {
        found.insert(pattern.to_string(), pattern.clone());
    };
    for route in model.routes.values() {
        let RouteRule::Http(rule) = &route.rule else {
            continue;
        };
        for matches in &rule.matches {
            if let PathMatch::Regex(pattern) = &matches.path {
                take(pattern);
            }
            let headers = matches.headers.iter().map(|it| &it.value);
            for value in headers.chain(matches.query.iter().map(|it| &it.value)) {
                if let StringMatch::Regex(pattern) = value {
                    take(pattern);
                }
            }
        }
    }
    found
}

fn total(model: &Model) -> usize {
    let expressions = expressions(model);
    expressions.values().map(Pattern::compiled_bytes).sum()
}

/// The conditions of a route at its only parent that have this type: status and message.
fn condition(statuses: &[(String, Status)], route: &str, kind: ConditionType) -> Option<String> {
    let status = statuses.iter().find(|(name, _)| name.ends_with(route));
    let Some((_, Status::Route(status))) = status else {
        panic!("{route} has no status: {statuses:?}");
    };
    let conditions = &status.parents[0].conditions;
    let found = conditions.iter().find(|it| it.kind == kind)?;
    let is_true = found.status == ConditionStatus::True;
    Some(format!("{is_true}: {}", found.message))
}

fn statuses_of(translation: &Translation) -> Vec<(String, Status)> {
    let statuses = translation.statuses.iter();
    let routes = statuses.filter(|(_, status)| matches!(status, Status::Route(_)));
    routes
        .map(|(object, status)| (object.to_string(), status.clone()))
        .collect()
}

/// 4096 expressions in 16 rules, with what each looks like.
fn route_of_4096(expression: fn(usize) -> String) -> String {
    let mut text = format!(
        "{GATEWAY}---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: greedy}}\nspec:\n  parentRefs: [{{name: gw}}]\n  rules:\n"
    );
    for rule in 0..16 {
        writeln!(text, "  - matches:").expect("a string");
        for number in 0..8 {
            let values = |start: usize| {
                let first = (rule * 8 + number) * 32 + start;
                let values = (first..first + 16).map(|number| {
                    let (name, value) = (number % 32, expression(number));
                    format!("{{type: RegularExpression, name: x-{name}, value: '{value}'}}")
                });
                values.collect::<Vec<String>>().join(", ")
            };
            let (headers, parameters) = (values(0), values(16));
            writeln!(text, "    - headers: [{headers}]").expect("a string");
            writeln!(text, "      queryParams: [{parameters}]").expect("a string");
        }
    }
    text
}

#[test]
fn four_thousand_expressions_of_a_route_are_refused_in_its_status() {
    let _alone = alone();
    let text = route_of_4096(|number| format!(r"\w{{20}}{number}"));
    let before = Pattern::compilations();
    let translation = translated(&text);
    let compiled = Pattern::compilations() - before;
    assert!(compiled < 1000, "{compiled} were compiled");
    assert!(total(&translation.model) <= PatternBudget::MAX_BYTES + (4 << 10));
    let statuses = statuses_of(&translation);
    let dropped = condition(&statuses, "greedy", ConditionType::PartiallyInvalid);
    let dropped = dropped.expect("some of its rules are refused");
    for part in ["true: Dropped Rule", "KiB of 2048 KiB", "split the object"] {
        assert!(dropped.contains(part), "{dropped}");
    }
    assert!(dropped.len() < 16 << 10, "{}", dropped.len());
    // Every rule is there: those beyond the budget answer with 500.
    assert_eq!(translation.model.routes.len(), 16);
}

#[test]
fn four_thousand_expressions_that_are_too_large_cost_as_much_as_a_few() {
    let _alone = alone();
    let text = route_of_4096(|number| format!(r"(\w{{500}}){{500}}{number}"));
    let before = Pattern::compilations();
    let translation = translated(&text);
    let compiled = Pattern::compilations() - before;
    assert!(compiled < 40, "{compiled} were compiled");
    assert!(total(&translation.model) < 4 << 10, "none is left");
    let statuses = statuses_of(&translation);
    let accepted = condition(&statuses, "greedy", ConditionType::Accepted).expect("a condition");
    assert!(accepted.starts_with("false: "), "{accepted}");
    assert!(accepted.contains("64 KiB when compiled"), "{accepted}");
}

#[test]
fn ordinary_expressions_fit() {
    let _alone = alone();
    assert_eq!(ORDINARY.len(), 50);
    let mut text = format!(
        "{GATEWAY}---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: ordinary}}\nspec:\n  parentRefs: [{{name: gw}}]\n  rules:\n  - matches:\n"
    );
    for expression in ORDINARY {
        let place = if expression.starts_with('/') {
            "path: {type: RegularExpression, value: '"
        } else {
            "headers: [{type: RegularExpression, name: x, value: '"
        };
        let end = if expression.starts_with('/') {
            "'}"
        } else {
            "'}]"
        };
        let quoted = expression.replace('\'', "''");
        writeln!(text, "    - {place}{quoted}{end}").expect("a string");
    }
    let translation = translated(&text);
    let problems: Vec<_> = translation.statuses.problem_conditions().collect();
    assert!(problems.is_empty(), "{problems:?}");
    let expressions = expressions(&translation.model);
    assert_eq!(expressions.len(), ORDINARY.len());
    for (text, pattern) in &expressions {
        let bytes = pattern.compiled_bytes();
        assert!(bytes <= Pattern::MAX_COMPILED_BYTES, "{text}: {bytes}");
    }
    let total = total(&translation.model);
    assert!(total < PatternBudget::MAX_BYTES / 4, "{total}");
}

/// What the expression of a [`route`] takes.
fn bytes_of_one() -> u64 {
    let pattern = Pattern::parse("/a/[a-z]{50}").expect("valid");
    pattern.compiled_bytes() as u64
}

/// A route that was created in this year, with one expression of some 3 KiB.
fn route(name: &str, year: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, creationTimestamp: {year}-01-01T00:00:00Z, generation: 1}}
spec:
  parentRefs: [{{name: gw}}]
  rules:
  - matches: [{{path: {{type: RegularExpression, value: '/{name}/[a-z]{{50}}'}}}}]
    backendRefs: [{{name: app, port: 80}}]
"
    )
}

/// What a consumer of deltas knows.
struct Consumer {
    translator: Translator,
    model: Model,
    statuses: BTreeMap<String, Status>,
}

impl Consumer {
    fn new(expression_bytes: u64) -> Self {
        let budgets = Limits::default().with(Budget::GatewayExpressionBytes, expression_bytes);
        let mut own = Self {
            translator: Translator::new(Options {
                budgets,
                ..Options::machine()
            }),
            model: Model::default(),
            statuses: BTreeMap::new(),
        };
        own.apply(vec![Event::Start]);
        own.upsert(GATEWAY);
        own
    }

    fn apply(&mut self, batch: Vec<Event>) {
        let Delta {
            resources,
            statuses,
            ..
        } = self.translator.apply(batch, Timestamp::UNIX_EPOCH);
        self.model.apply(resources);
        for (object, status) in statuses {
            match status {
                Some(status) => self.statuses.insert(object.to_string(), status),
                None => self.statuses.remove(&object.to_string()),
            };
        }
    }

    fn upsert(&mut self, text: &str) {
        self.apply(objects(text).into_iter().map(Event::Upsert).collect());
    }

    fn delete(&mut self, text: &str) {
        let objects = objects(text).into_iter();
        self.apply(objects.map(|it| Event::Delete(it.object_ref())).collect());
    }

    fn accepted(&self, route: &str) -> String {
        let statuses: Vec<_> = self.statuses.clone().into_iter().collect();
        condition(&statuses, route, ConditionType::Accepted).expect("a condition")
    }

    /// Whether a route serves, apart from answering with 500.
    fn serves(&self, route: &str) -> bool {
        let mut rules = self.model.routes.values();
        let rule = rules.find(|it| it.key.to_string().contains(&format!("/{route}/")));
        let RouteRule::Http(rule) = &rule.expect("its rule is there").rule else {
            panic!("a rule of HTTP");
        };
        !rule.backends.is_empty()
    }
}

#[test]
fn a_gateway_beyond_its_budget_refuses_the_newest_routes() {
    let _alone = alone();
    let budget = bytes_of_one() * 5 / 2;
    let mut consumer = Consumer::new(budget);
    // In an order other than that of their ages.
    for (name, year) in [("c", 2023), ("a", 2021), ("d", 2024), ("b", 2022)] {
        consumer.upsert(&route(name, year));
    }
    for name in ["a", "b"] {
        assert!(consumer.accepted(name).starts_with("true"), "{name}");
        assert!(consumer.serves(name), "{name}");
    }
    for name in ["c", "d"] {
        let accepted = consumer.accepted(name);
        for part in [
            "false: spec.parentRefs[0]: its regular expressions ",
            "exceed the budget of Gateway default/gw",
            &format!("which is {budget} bytes for all routes"),
            "use fewer or simpler ones",
        ] {
            assert!(accepted.contains(part), "{accepted}");
        }
        assert!(!consumer.serves(name), "{name} answers with 500");
        let start = format!("/{name}/(?s:.*)");
        let closing = expressions(&consumer.model);
        assert!(closing.contains_key(&start), "{closing:?}");
    }
    assert!(total(&consumer.model) as u64 <= budget + bytes_of_one());
    consumer.delete(&route("a", 2021));
    assert!(consumer.accepted("c").starts_with("true"));
    assert!(consumer.serves("c"));
    assert!(consumer.accepted("d").starts_with("false"));
    consumer.upsert(&route("a", 2021));
    assert!(consumer.serves("a"), "it is the oldest again");
    assert!(!consumer.serves("c"));
}

#[test]
fn equal_expressions_of_a_gateway_count_once() {
    let _alone = alone();
    let mut consumer = Consumer::new(bytes_of_one() * 3 / 2);
    for number in 0..20 {
        let text = route("same", 2021).replace("name: same", &format!("name: same-{number}"));
        consumer.upsert(&text);
    }
    for number in 0..20 {
        let name = format!("same-{number}");
        assert!(consumer.accepted(&name).starts_with("true"), "{name}");
    }
}

#[test]
fn a_change_of_a_service_compiles_no_expression_again() {
    let _alone = alone();
    let mut consumer = Consumer::new(32 << 20);
    let mut text = String::new();
    for number in 0..128 {
        let value = format!("/service/[a-f0-9]{{8}}/{number}/.*");
        writeln!(
            text,
            "    - path: {{type: RegularExpression, value: '{value}'}}"
        )
        .expect("a string");
    }
    let matches = text.lines().collect::<Vec<_>>();
    let rules: Vec<String> = matches
        .chunks(64)
        .map(|chunk| {
            let matches = chunk.join("\n");
            format!("  - backendRefs: [{{name: app, port: 80}}]\n    matches:\n{matches}\n")
        })
        .collect();
    let route = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: many}}\n\
         spec:\n  parentRefs: [{{name: gw}}]\n  rules:\n{}",
        rules.join("")
    );
    let before = Pattern::compilations();
    consumer.upsert(&route);
    assert_eq!(Pattern::compilations() - before, 128, "each once");
    let ran = consumer.translator.units_run();
    for port in [80, 81, 80] {
        consumer.upsert(&format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: app}}\n\
             spec: {{clusterIP: 10.0.0.1, ports: [{{port: {port}}}]}}\n"
        ));
        assert!(
            consumer.translator.units_run() > 1,
            "the route is translated"
        );
    }
    assert!(ran > 1);
    assert_eq!(Pattern::compilations() - before, 128, "none again");
}

const GATEWAY: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: gateway
  listeners: [{name: http, port: 8080, protocol: HTTP}]
";

/// What routes usually ask for: versions, locales, files, tenants, clients, cookies, hosts.
const ORDINARY: [&str; 50] = [
    "/v[0-9]+/.*",
    "/api/v[1-3](/.*)?",
    "/api/(v1|v2|beta)/users/[0-9]+",
    r"/[a-z]{2}(-[A-Z]{2})?/.*",
    r"/(en|de|fr|es|pt-br|zh-cn)(/.*)?",
    r"/.*\.(js|mjs|css|map|woff2?|ttf|eot)",
    r"/.*\.(png|jpe?g|gif|svg|webp|avif|ico)",
    r"/.*\.php",
    r"/static/[^/]+/[^/]+",
    r"/downloads/.+\.(zip|tar\.gz|tgz|deb|rpm)",
    "/tenants/[a-z0-9-]{1,63}/.*",
    "/t/[A-Za-z0-9_-]{8,36}(/.*)?",
    "/orders/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    r"/\d{4}/\d{2}/\d{2}/.+",
    "/(healthz|readyz|livez|metrics)",
    "/users/[^/]+/(profile|settings|avatar)",
    "/projects/[^/]+/repos/[^/]+/(tree|blob)/.*",
    "/(?i:admin|console)(/.*)?",
    "/ws(/v[0-9]+)?/?",
    "/graphql/?",
    r"/~[a-z][a-z0-9_]*(/.*)?",
    r"/\.well-known/.*",
    "/internal/(?:debug|trace)/.*",
    "/s/[A-Za-z0-9]{6,10}",
    "/rpc/[A-Za-z]+(\\.[A-Za-z]+)*",
    r"v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?",
    r"[0-9]+(\.[0-9]+){0,3}",
    "(?i).*(android|iphone|ipad|mobile|windows phone).*",
    "(?i).*(bot|crawler|spider|slurp).*",
    r".*Chrome/\d+.*",
    r".*(MSIE |Trident/).*",
    r"(?i)curl/.*|wget/.*|python-requests/.*",
    r"(.*; ?)?canary=always(;.*)?",
    r"(.*;\s*)?session=[A-Za-z0-9]{32}(;.*)?",
    r".*(^|; )beta=(true|1)(;.*)?",
    r"Bearer [A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+",
    "Basic [A-Za-z0-9+/]+={0,2}",
    r"([a-z0-9-]+\.)*example\.com(:\d+)?",
    r"https?://([a-z0-9-]{1,63}\.)+example\.(com|net)",
    r"(10|192\.168|172\.(1[6-9]|2\d|3[01]))\..*",
    r"[a-z]{2,3}(-[A-Z]{2})?(,.*)?",
    r".*application/(json|xml).*",
    r"application/vnd\.example\.v[0-9]+\+json",
    "(gzip|br|zstd)(,.*)?",
    "[0-9a-f]{32}-[0-9a-f]{16}-0[01]",
    "(team|group)-[a-z0-9]+(-[a-z0-9]+)*",
    "[A-Z]{2}[0-9]{6,8}",
    r"\w+@\w+\.\w+",
    r"\S+",
    "[A-Za-z0-9+/=_-]{20,512}",
];
