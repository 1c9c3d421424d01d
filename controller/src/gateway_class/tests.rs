use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser as _;
use kube::core::WatchEvent;

use super::*;
use crate::args::Cli;
use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::outputs::Outputs;
use crate::stopping::{Stop, Stopping};
use crate::testing::{ApiServer, Fault};

const CLASSES: &str = "/apis/gateway.networking.k8s.io/v1/gatewayclasses";
const CLASS: &str = "/apis/gateway.networking.k8s.io/v1/gatewayclasses/gateway";

/// An installation of the controller with one replica, which is its leader.
struct Installation {
    server: ApiServer,
    context: Context,
    /// Whether it is still reading the cluster for the first time.
    is_starting: bool,
    /// Whether it serves the class.
    serves: Arc<AtomicBool>,
    writing: Leadership,
    writers: Option<Election>,
    _election: Election,
    _stop: Stop,
}

impl Installation {
    fn new(server: &ApiServer, namespace: &str) -> Self {
        let arguments = [
            "controller",
            "run",
            "--namespace",
            namespace,
            "--service",
            "gateway",
        ];
        let args = Cli::try_parse_from(arguments)
            .expect("arguments")
            .into_run();
        let (election, leadership) = Leadership::new();
        election.set(true);
        let (stop, stopping) = Stopping::new();
        let (writers, writing) = Leadership::new();
        let outputs = Outputs {
            claims: Claims::new(Some(format!("{namespace}/gateway"))),
            ..Outputs::default()
        };
        outputs.translated.send_replace(true);
        Self {
            server: server.clone(),
            context: Context {
                client: server.client(),
                args: Arc::new(args),
                outputs: Arc::new(outputs),
                leadership,
                stopping,
                metrics: Metrics::default(),
            },
            is_starting: false,
            serves: Arc::default(),
            writing,
            writers: Some(writers),
            _election: election,
            _stop: stop,
        }
    }

    /// Everything that it does, as long as this is polled.
    fn run(&mut self) -> impl Future<Output = ()> + use<> {
        let mut changes = self.server.changes(CLASSES);
        let (context, serves) = (self.context.clone(), Arc::clone(&self.serves));
        let is_starting = self.is_starting;
        let claiming = run(context.clone(), self.writers.take().expect("run once"));
        let watching = async move {
            while let Some(line) = changes.recv().await {
                let event: WatchEvent<DynamicObject> =
                    serde_json::from_slice(&line).expect("an event");
                let (WatchEvent::Added(class) | WatchEvent::Modified(class)) = event else {
                    panic!("{event:?}")
                };
                let annotations = class.metadata.annotations.unwrap_or_default();
                let text = |name| annotations.get(name).cloned().unwrap_or_default();
                let observed = ObservedClass {
                    claim: annotations.contains_key(CLAIMED_BY).then(|| Claim {
                        holder: text(CLAIMED_BY),
                        renewed: text(RENEWED),
                    }),
                    resource_version: class.metadata.resource_version.expect("a version"),
                    uid: class.metadata.uid.expect("a uid"),
                };
                let claims = &context.outputs.claims;
                let name = class.metadata.name.expect("a name");
                let is_served = claims.observe(&name, observed, is_starting);
                if name == "gateway" {
                    serves.store(is_served, Ordering::Relaxed);
                }
            }
        };
        async {
            tokio::join!(claiming, watching);
        }
    }

    fn serves(&self) -> bool {
        self.serves.load(Ordering::Relaxed)
    }
}

fn holder(server: &ApiServer) -> Option<String> {
    let class = server.get(CLASS)?;
    class["metadata"]["annotations"][CLAIMED_BY]
        .as_str()
        .map(str::to_owned)
}

/// Polls what runs, for this long.
async fn pass(time: Duration, running: impl Future<Output = ()>) {
    let _ = timeout(time, running).await;
}

const LONG: Duration = Duration::from_mins(5);

#[tokio::test(start_paused = true)]
async fn of_two_installations_that_start_together_one_serves_the_class() {
    for latency in [0, 5, 700] {
        let server = ApiServer::default();
        server.set_latency(Duration::from_millis(latency));
        let (mut one, mut two) = (
            Installation::new(&server, "one"),
            Installation::new(&server, "two"),
        );
        let (first, second) = (one.run(), two.run());
        let both = async move {
            tokio::join!(first, second);
        };
        let mut both = std::pin::pin!(both);
        pass(LONG, &mut both).await;
        let winner = holder(&server).expect("it is claimed");
        assert!(
            ["one/gateway", "two/gateway"].contains(&&*winner),
            "{winner}"
        );
        assert_eq!(one.serves(), winner == "one/gateway", "{latency}");
        assert_eq!(two.serves(), winner == "two/gateway", "{latency}");
        // The other one has its own Gateways to write to, if any.
        assert!(one.writing.is_leader() && two.writing.is_leader());
        // It stays like that.
        pass(LONG, &mut both).await;
        assert_eq!(holder(&server), Some(winner));
    }
}

/// As after an upgrade from a version without claims, when both have served the class.
#[tokio::test(start_paused = true)]
async fn of_two_installations_that_served_an_unclaimed_class_one_ends() {
    let server = ApiServer::default();
    server.put(
        CLASS,
        json!({"metadata": {}, "spec": {"controllerName": "x"}}),
    );
    let (mut one, mut two) = (
        Installation::new(&server, "one"),
        Installation::new(&server, "two"),
    );
    one.is_starting = true;
    two.is_starting = true;
    let (mut first, mut second) = (Box::pin(one.run()), Box::pin(two.run()));
    let both = async {
        tokio::join!(&mut first, &mut second);
    };
    let ended = async {
        tokio::select! {
            _ = one.context.outputs.claims.lost() => "one/gateway",
            _ = two.context.outputs.claims.lost() => "two/gateway",
            () = both => unreachable!("they do not end by themselves"),
        }
    };
    let ended = timeout(LONG, ended).await.expect("one ends");
    let winner = holder(&server).expect("it is claimed");
    assert_ne!(winner, ended);
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_a_paused_installation_is_taken_over_and_it_ends_when_it_returns() {
    let server = ApiServer::default();
    let (mut one, mut two) = (
        Installation::new(&server, "one"),
        Installation::new(&server, "two"),
    );
    let mut first = std::pin::pin!(one.run());
    pass(Duration::from_secs(10), &mut first).await;
    assert!(one.serves());
    let mut second = std::pin::pin!(two.run());
    // Both run for a while: the claim is renewed.
    let both = async {
        tokio::join!(&mut first, &mut second);
    };
    pass(LONG, both).await;
    assert_eq!(holder(&server).as_deref(), Some("one/gateway"));
    assert!(!two.serves());
    assert_eq!(two.context.outputs.claims.foreign_count(), 1);
    // The first one is not polled.
    pass(LONG, &mut second).await;
    assert_eq!(holder(&server).as_deref(), Some("two/gateway"));
    assert!(two.serves());
    let lost = async {
        tokio::select! {
            lost = one.context.outputs.claims.lost() => assert_eq!(lost.class, "gateway"),
            () = &mut first => {}
            () = &mut second => {}
        }
    };
    timeout(LONG, lost).await.expect("it ends");
    assert_eq!(
        holder(&server).as_deref(),
        Some("two/gateway"),
        "it is not taken back"
    );
}

/// The holder's clock may stand still or go backwards: only changes count.
#[tokio::test(start_paused = true)]
async fn a_claim_that_changes_is_alive_whatever_its_time() {
    let server = ApiServer::default();
    let mut own = Installation::new(&server, "one");
    let class = |renewed: &str| {
        json!({
            "metadata": {"annotations": {CLAIMED_BY: "two/gateway", RENEWED: renewed}},
            "spec": {"controllerName": "x"},
        })
    };
    server.put(CLASS, class("2099-01-01T00:00:00Z"));
    let mut running = std::pin::pin!(own.run());
    for year in [2000, 1999, 2050, 1970, 1971, 1000] {
        pass(claims::DURATION * 9 / 10, &mut running).await;
        assert_eq!(holder(&server).as_deref(), Some("two/gateway"), "{year}");
        server.put(CLASS, class(&format!("{year}-01-01T00:00:00Z")));
    }
    assert_eq!(
        server.get(CLASS).expect("a class")["spec"]["controllerName"],
        "x",
        "not applied"
    );
    pass(claims::DURATION + Duration::from_secs(10), &mut running).await;
    assert_eq!(holder(&server).as_deref(), Some("one/gateway"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_before_classes_are_claimed() {
    let server = ApiServer::default();
    server.put(
        CLASS,
        json!({"metadata": {}, "spec": {"controllerName": "x"}}),
    );
    let mut own = Installation::new(&server, "one");
    own.is_starting = true;
    server.fail(std::iter::repeat_n(Fault::Refused(500, 0), 1_000));
    let mut running = std::pin::pin!(own.run());
    pass(LONG, &mut running).await;
    assert!(own.serves(), "its proxies keep their configuration");
    assert!(!own.writing.is_leader());
}

/// An admission webhook may deny the claim on one class.
#[tokio::test(start_paused = true)]
async fn a_class_that_cannot_be_claimed_does_not_stop_the_others() {
    let server = ApiServer::default();
    let class = json!({"metadata": {}, "spec": {"controllerName": "x"}});
    server.put(CLASS, class.clone());
    server.put(&format!("{CLASSES}/bad"), class);
    server.refuse("gatewayclasses/bad", 403);
    let mut own = Installation::new(&server, "one");
    own.is_starting = true;
    let outputs = Arc::clone(&own.context.outputs);
    let claims = &outputs.claims;
    let mut running = std::pin::pin!(own.run());
    pass(Duration::from_secs(5), &mut running).await;
    assert!(own.serves() && own.writing.is_leader());
    assert_eq!(claims.undecided("gateway"), None);
    let why = claims.undecided("bad").expect("it is not claimed");
    assert!(why.contains("injected fault"), "{why}");
    // The metric counts it, and an Event of the class tells, once.
    assert_eq!(claims.unclaimed_count(), 1);
    let events = |server: &ApiServer| {
        let writes = server.writes().into_iter();
        writes.filter(|it| it.uri.contains("/events")).count()
    };
    assert_eq!(events(&server), 1);
    // It is tried again, and less and less often.
    pass(LONG, &mut running).await;
    let writes = server.writes().into_iter();
    let tries = writes.filter(|it| it.uri.contains("/bad")).count();
    assert!((10..40).contains(&tries), "{tries}");
    server.accept_all();
    pass(Duration::from_secs(30), &mut running).await;
    assert_eq!(claims.undecided("bad"), None);
    assert_eq!((claims.unclaimed_count(), events(&server)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_application_of_the_class_without_a_response_ends_and_is_repeated() {
    let server = ApiServer::default();
    let mut own = Installation::new(&server, "one");
    server.fail([Fault::AppliedWithoutAnswer]);
    let mut running = std::pin::pin!(own.run());
    pass(Duration::from_secs(30), &mut running).await;
    assert!(own.serves() && own.writing.is_leader());
    let applied = server.writes().into_iter();
    let applied = applied.filter(|it| it.uri.contains("fieldManager"));
    assert_eq!(applied.count(), 2);
}
