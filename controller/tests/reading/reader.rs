//! The reading half of a controller, and its publications.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use controller::metrics::Metrics;
use controller::outputs::Outputs;
use controller::selectors::Selectors;
use controller::translation::Translation;
use controller::watch::{Kinds, Readiness, Supervisor};
use jiff::Timestamp;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use translate::Options;
use translate::status::Status;
use xds::delta::{Client, Outgoing, Poll, ProxySession, Report, Views};
use xds::discovery::DeltaDiscoveryResponse;
use xds::model::{Features, Model, ObjectName};

use crate::cluster::Cluster;
use crate::objects::{self, Outcome, class, from_scratch};

pub(crate) struct Reader {
    pub(crate) outputs: Arc<Outputs>,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: Metrics,
    selectors: Selectors,
    _tasks: JoinSet<()>,
}

impl Reader {
    pub(crate) fn start(cluster: &Cluster, selectors: &str) -> Self {
        let selectors: Selectors = selectors.parse().expect("selectors");
        let (outputs, metrics) = (Arc::<Outputs>::default(), Metrics::default());
        let kinds = Kinds::new(&[]);
        let readiness = Readiness::new(kinds.clone());
        let (sender, changes) = mpsc::channel(64);
        let client = cluster.client();
        let watches = Supervisor::start(&client, selectors.clone(), &sender, &readiness, &metrics);
        let options = Options {
            classes: [].into(),
            ..Options::cluster()
        };
        let clock = || Timestamp::UNIX_EPOCH;
        let translation = Translation::new(options, &kinds, Arc::clone(&outputs), &metrics, clock);
        let mut tasks = JoinSet::new();
        tasks.spawn(watches.run());
        tasks.spawn(translation.run(changes));
        Self {
            outputs,
            readiness,
            metrics,
            selectors,
            _tasks: tasks,
        }
    }

    /// Waits until the published model matches the objects of the cluster.
    pub(crate) async fn expect(&self, cluster: &Cluster, within: Duration) {
        let expected = from_scratch(&cluster.objects(), &self.selectors);
        let end = tokio::time::Instant::now() + within;
        while tokio::time::Instant::now() < end {
            if self.outputs.published.views().is_complete() && self.outcome() == expected {
                return;
            }
            tokio::time::sleep(within / 100).await;
        }
        assert_eq!(
            self.outcome(),
            expected,
            "after {within:?}: {:?}",
            self.readiness.unsynced()
        );
    }

    /// The supported features in the status of the class.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        let status = self.outputs.statuses.get(&objects::reference(&class()));
        let Some(Status::GatewayClass(status)) = status.as_deref() else {
            panic!("{status:?}");
        };
        let features = status.supported_features.iter();
        features.map(|feature| feature.name).collect()
    }

    /// The published models and the statuses.
    pub(crate) fn outcome(&self) -> Outcome {
        let statuses = self.outputs.statuses.keys().into_iter();
        let statuses = statuses.filter_map(|object| {
            let status = self.outputs.statuses.get(&object)?;
            Some((object, (*status).clone()))
        });
        let statuses = statuses.collect();
        let mut views = self.outputs.published.views();
        let gateways = GATEWAYS.map(|(namespace, name)| ObjectName::new(namespace, name));
        let models = gateways.into_iter().map(|gateway| {
            let model = model(&mut views, &gateway);
            (gateway, model)
        });
        let models = models.filter(|(_, model)| *model != Model::default());
        Outcome {
            models: models.collect(),
            statuses,
        }
    }

    /// How often a kind was listed.
    pub(crate) fn lists(&self, kind: &str) -> u32 {
        let start = format!("gateway_controller_watch_lists_total{{kind=\"{kind}\"}} ");
        let metrics = self.metrics.text();
        let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(&start));
        lines
            .next()
            .and_then(|count| count.parse().ok())
            .unwrap_or_default()
    }
}

/// The resources that a newly connected proxy of a Gateway receives.
fn model(views: &mut Views, gateway: &ObjectName) -> Model {
    let mut session = ProxySession::begin(views, gateway.clone(), Features::all());
    let mut client = Client::new("test".to_owned());
    for request in client.connect(Report::Versions) {
        session
            .receive(request, Instant::now())
            .expect("a known type");
    }
    let mut model = Model::default();
    if let Poll::Send(unsent) = session.poll(views, Instant::now()) {
        for Outgoing { body, tail, .. } in session.send(unsent) {
            let received = client.receive(decode(&body, &tail)).expect("a part");
            if let Some(received) = received {
                assert_eq!(received.refused, []);
                model.apply(received.changes);
            }
        }
    }
    session.end(views);
    model
}

fn decode(body: &Bytes, tail: &Bytes) -> DeltaDiscoveryResponse {
    let mut bytes = BytesMut::from(&**body);
    bytes.extend_from_slice(tail);
    DeltaDiscoveryResponse::decode(bytes).expect("a response")
}

/// All that tests use.
const GATEWAYS: [(&str, &str); 2] = [("a", "gw"), ("b", "gw")];
