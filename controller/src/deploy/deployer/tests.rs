//! On paused time, with an API server in this process.

mod addresses;
#[cfg(feature = "test-hooks")]
mod defects;
mod mistakes;
mod pods;
mod scaling;
mod workload;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use translate::api::GatewayAddress;
use translate::{AssignedAddresses, Infrastructure, NoAddress};

use super::*;
use crate::deploy::ports::{Port, Transport};
use crate::deploy::render::Defaults;
use crate::leadership::Election;
use crate::metrics::Metrics;
use crate::outputs::ExistingGateway;
use crate::stopping::Stop;
use crate::testing::{ApiServer, Fault};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/infra/deployments/edge";
const DAEMON_SET: &str = "/apis/apps/v1/namespaces/infra/daemonsets/edge";
const SERVICE: &str = "/api/v1/namespaces/infra/services/edge";
const ACCOUNT: &str = "/api/v1/namespaces/infra/serviceaccounts/edge";
const CONFIG_MAP: &str = "/api/v1/namespaces/infra/configmaps/edge";

struct Scene {
    deployer: JoinHandle<()>,
    server: ApiServer,
    outputs: Arc<Outputs>,
    election: Election,
    registry: Metrics,
    _stop: Stop,
}

impl Scene {
    /// A deployer that is the leader, in a cluster with these objects.
    fn with(objects: &[(&str, Value)]) -> Self {
        Self::of(Outputs::default(), objects)
    }

    fn of(outputs: Outputs, objects: &[(&str, Value)]) -> Self {
        Self::reading(NodeReading::Disabled, outputs, objects)
    }

    fn reading(nodes: NodeReading, outputs: Outputs, objects: &[(&str, Value)]) -> Self {
        let (server, outputs) = (ApiServer::default(), Arc::new(outputs));
        server.put("/api/v1/namespaces/infra", json!({}));
        for (path, object) in objects {
            server.put(path, object.clone());
        }
        let registry = Metrics::default();
        let (election, leadership) = Leadership::new();
        let (stop, stopping) = Stopping::new();
        outputs.authorities.send_replace("one".into());
        outputs.translated.send_replace(true);
        let settings = Settings {
            defaults: Defaults {
                image: "gateway:1".to_owned(),
                image_pull_policy: "IfNotPresent".to_owned(),
                xds_address: "https://controller.gateway-system.svc:9978".to_owned(),
                authorities: None,
                audience: "xds".to_owned(),
            },
            is_encrypted: true,
            nodes,
        };
        let measures = QueueMeasures::new(&registry);
        let client = server.client();
        let deployer = Deployer::new(client, Arc::clone(&outputs), settings, &measures);
        let deployer = tokio::spawn(deployer.run(leadership, stopping));
        election.set(true);
        Self {
            deployer,
            server,
            outputs,
            election,
            registry,
            _stop: stop,
        }
    }

    async fn begin() -> Self {
        let scene = Self::with(&[]);
        scene.want("uid-1", Infrastructure::default());
        settle().await;
        scene
    }

    /// The Gateway infra/edge of this UID.
    fn want(&self, uid: &str, infrastructure: Infrastructure) {
        self.want_named(&edge(), uid, infrastructure);
    }

    fn want_named(&self, name: &ObjectName, uid: &str, infrastructure: Infrastructure) {
        let (transport, number) = (Transport::Tcp, 80);
        let ports = BTreeSet::from([Port { transport, number }]);
        self.outputs
            .gateways
            .set(name, Some(present(uid, &infrastructure.class)));
        self.outputs.ports.set(name, Some(ports));
        self.outputs
            .infrastructure
            .set(name, Some(Arc::new(infrastructure)));
    }

    /// Creates parameters, and a Gateway infra/edge that uses them.
    fn want_with(&self, spec: &Value) {
        let parameters = ObjectName::new("infra", "nodes");
        let infrastructure = Infrastructure {
            parameters: Some(parameters.clone()),
            ..Infrastructure::default()
        };
        let spec = Some(Arc::new(spec.clone()));
        self.outputs.parameters.set(&parameters, spec);
        self.want("uid-1", infrastructure);
    }

    /// Why the Gateway is not deployed.
    fn refusal(&self) -> String {
        match self.deployment() {
            Some(Deployment::Refused(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    fn deployment(&self) -> Option<Deployment> {
        self.outputs.deployments.get(&edge())
    }

    fn writes(&self) -> usize {
        self.server.writes().len()
    }
}

fn edge() -> ObjectName {
    ObjectName::new("infra", "edge")
}

/// A Gateway of this UID and class.
fn present(uid: &str, class: &str) -> ExistingGateway {
    ExistingGateway {
        uid: uid.into(),
        class: Some(class.into()),
    }
}

async fn settle() {
    sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_gateway_are_created_once() {
    let scene = Scene::begin().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
    for path in [DEPLOYMENT, SERVICE, ACCOUNT] {
        let object = scene.server.get(path).expect(path);
        assert_eq!(
            object["metadata"]["ownerReferences"][0]["uid"], "uid-1",
            "{path}"
        );
    }
    assert_eq!(scene.writes(), 5);
    sleep(Duration::from_hours(1)).await;
    assert_eq!(scene.writes(), 5, "nothing has moved since");
}

/// Each object takes a read and a write. One after the other, they took ten times as long as a request, which a
/// busy API server makes seconds.
#[tokio::test(start_paused = true)]
async fn a_new_gateway_waits_for_three_requests() {
    let scene = Scene::begin().await;
    scene.server.set_latency(Duration::from_millis(100));
    let other = ObjectName::new("infra", "other");
    scene.want_named(&other, "uid-2", Infrastructure::default());
    sleep(Duration::from_millis(350)).await;
    let deployment = scene.outputs.deployments.get(&other);
    assert_eq!(deployment, Some(Deployment::Done));
}

#[tokio::test(start_paused = true)]
async fn edited_objects_are_reverted_and_deleted_ones_recreated() {
    let scene = Scene::begin().await;
    let mut edited = scene.server.get(DEPLOYMENT).expect("a Deployment");
    edited["spec"]["template"]["spec"]["serviceAccountName"] = "other".into();
    scene.server.put(DEPLOYMENT, edited);
    scene.server.remove(ACCOUNT);
    settle().await;
    let deployment = scene.server.get(DEPLOYMENT).expect("a Deployment");
    assert_eq!(
        deployment["spec"]["template"]["spec"]["serviceAccountName"],
        "edge"
    );
    assert!(scene.server.get(ACCOUNT).is_some());
    // A status update changes no generation.
    let before = scene.writes();
    let mut running = deployment;
    running["status"] = json!({"readyReplicas": 1});
    scene.server.put(DEPLOYMENT, running);
    settle().await;
    assert_eq!(scene.writes(), before);
}

#[tokio::test(start_paused = true)]
async fn continuous_edits_by_others_cause_few_writes() {
    let scene = Scene::begin().await;
    let before = scene.writes();
    for count in 0..600 {
        let mut edited = scene.server.get(DEPLOYMENT).expect("a Deployment");
        edited["spec"]["template"]["spec"]["serviceAccountName"] = format!("other-{count}").into();
        scene.server.put(DEPLOYMENT, edited);
        sleep(Duration::from_millis(100)).await;
    }
    let count = scene.writes() - before;
    assert!((4..=12).contains(&count), "{count} writes in a minute");
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_owners_are_never_overwritten() {
    let foreign = json!({"spec": {"type": "ClusterIP"}});
    let scene = Scene::with(&[(SERVICE, foreign)]);
    scene.want("uid-1", Infrastructure::default());
    settle().await;
    let Some(Deployment::Refused(why)) = scene.deployment() else {
        panic!("{:?}", scene.deployment())
    };
    let expected = "Service infra/edge exists and does not belong to this Gateway: delete it, or \
                    give the Gateway another name";
    assert_eq!(why, expected);
    let service = scene.server.get(SERVICE).expect("a Service");
    assert_eq!(service["metadata"]["ownerReferences"], Value::Null);
    assert!(
        scene.server.get(DEPLOYMENT).is_some(),
        "the others need not wait"
    );
    let mut writes = scene.server.writes().into_iter();
    assert!(writes.all(|it| !it.uri.contains("/services/edge?")));
    let before = scene.writes();
    scene.server.remove(SERVICE);
    sleep(Duration::from_secs(700)).await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
    assert_eq!(scene.writes(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn deployment_waits_for_the_removal_of_a_deleted_gateways_objects() {
    let scene = Scene::begin().await;
    // Deleted and created again: its objects are still those of the first.
    scene.want("uid-2", Infrastructure::default());
    settle().await;
    assert!(matches!(scene.deployment(), Some(Deployment::Refused(_))));
    for path in [
        DEPLOYMENT,
        SERVICE,
        ACCOUNT,
        "/api/v1/namespaces/infra/configmaps/edge",
        "/api/v1/namespaces/infra/services/edge-metrics",
    ] {
        scene.server.remove(path);
    }
    settle().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
    let service = scene.server.get(SERVICE).expect("a Service");
    assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], "uid-2");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_without_listeners_keeps_its_service() {
    let scene = Scene::begin().await;
    scene.outputs.ports.set(&edge(), None);
    settle().await;
    assert!(scene.server.get(SERVICE).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_list_deletes_nothing() {
    let scene = Scene::begin().await;
    let before = scene.writes();
    scene.outputs.infrastructure.set(&edge(), None);
    sleep(Duration::from_secs(700)).await;
    assert_eq!(scene.writes(), before);
    assert!(scene.server.get(DEPLOYMENT).is_some());
}

#[tokio::test(start_paused = true)]
async fn objects_are_deleted_when_a_gateway_gets_another_class() {
    let scene = Scene::begin().await;
    let other = Some(present("uid-1", "other"));
    scene.outputs.gateways.set(&edge(), other);
    // It is being processed when the translation follows.
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    scene.outputs.infrastructure.set(&edge(), None);
    settle().await;
    for path in [DEPLOYMENT, SERVICE, ACCOUNT] {
        assert!(scene.server.get(path).is_none(), "{path}");
    }
    assert_eq!(scene.deployment(), None);
    // And back.
    scene.want("uid-1", Infrastructure::default());
    settle().await;
    assert!(scene.server.get(DEPLOYMENT).is_some());
}

#[tokio::test(start_paused = true)]
async fn parameters_of_a_class_apply_to_its_gateways() {
    let scene = Scene::begin().await;
    let parameters = ObjectName::new("infra", "nodes");
    let class = &scene.outputs.class_parameters;
    class.set(&String::new(), Some(Ok(parameters.clone())));
    settle().await;
    let Some(Deployment::Refused(why)) = scene.deployment() else {
        panic!("{:?}", scene.deployment())
    };
    assert!(why.contains("GatewayParameters infra/nodes does not exist"));
    // By now its attempts are minutes apart; what corrects them is followed at once all the same.
    sleep(Duration::from_secs(700)).await;
    let spec = json!({"replicas": 3});
    let all = &scene.outputs.parameters;
    all.set(&parameters, Some(Arc::new(spec)));
    settle().await;
    let replicas =
        || scene.server.get(DEPLOYMENT).expect("a Deployment")["spec"]["replicas"].clone();
    assert_eq!(replicas(), 3);
    class.set(&String::new(), Some(Err("a typo".into())));
    sleep(Duration::from_secs(700)).await;
    let other = ObjectName::new("infra", "others");
    all.set(&other, Some(Arc::new(json!({"replicas": 4}))));
    // No Gateway has these parameters yet, so only the class can end the wait for the next attempt.
    settle().await;
    class.set(&String::new(), Some(Ok(other)));
    settle().await;
    assert_eq!(replicas(), 4);
}

#[tokio::test(start_paused = true)]
async fn every_replica_reads_the_assigned_addresses() {
    let scene = Scene::begin().await;
    assert!(*scene.outputs.addresses_known.borrow());
    scene.election.set(false);
    let mut service = scene.server.get(SERVICE).expect("a Service");
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    scene.server.put(SERVICE, service);
    settle().await;
    let address = GatewayAddress {
        kind: "IPAddress".to_owned(),
        value: "192.0.2.1".to_owned(),
        routability: String::new(),
    };
    let assigned = AssignedAddresses {
        default: vec![address],
        cluster: Vec::new(),
        absence: NoAddress::Pending,
    };
    assert_eq!(scene.outputs.addresses.get(&edge()), Some(assigned));
    scene.server.remove(SERVICE);
    settle().await;
    assert_eq!(scene.outputs.addresses.get(&edge()), None);
    assert!(
        scene.server.get(SERVICE).is_none(),
        "only the leader writes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_lead_keeps_no_names_of_changed_gateways() {
    let scene = Scene::begin().await;
    scene.election.set(false);
    settle().await;
    scene.want("uid-2", Infrastructure::default());
    let outputs = &scene.outputs;
    let missing = Some(Err("no such object".into()));
    outputs.class_parameters.set(&"gateway".to_owned(), missing);
    outputs.parameters.set(&edge(), Some(Arc::default()));
    sleep(Duration::from_mins(2)).await;
    let gateways = [
        outputs.gateways.take_changed(),
        outputs.ports.take_changed(),
        outputs.infrastructure.take_changed(),
        outputs.parameters.take_changed(),
    ];
    assert_eq!(gateways, [const { BTreeSet::new() }; 4]);
    assert_eq!(outputs.class_parameters.take_changed(), BTreeSet::new());
}

/// Its class changed under another leader, or before the first translation of this replica.
#[tokio::test(start_paused = true)]
async fn a_new_leader_deletes_the_objects_of_a_gateway_of_another_class() {
    for is_translated in [true, false] {
        let scene = Scene::begin().await;
        scene.election.set(false);
        settle().await;
        scene.outputs.translated.send_replace(is_translated);
        let other = Some(present("uid-1", "other"));
        scene.outputs.gateways.set(&edge(), other);
        scene.outputs.infrastructure.set(&edge(), None);
        sleep(Duration::from_mins(2)).await;
        scene.election.set(true);
        settle().await;
        assert_eq!(scene.server.get(DEPLOYMENT).is_none(), is_translated);
        scene.outputs.translated.send_replace(true);
        settle().await;
        assert!(scene.server.get(DEPLOYMENT).is_none());
    }
}

/// A new one of the same name would seem to be deployed.
#[tokio::test(start_paused = true)]
async fn deployments_of_gateways_deleted_under_another_leader_are_forgotten() {
    let scene = Scene::begin().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
    scene.election.set(false);
    settle().await;
    scene.outputs.gateways.set(&edge(), None);
    scene.outputs.infrastructure.set(&edge(), None);
    sleep(Duration::from_mins(2)).await;
    scene.election.set(true);
    settle().await;
    assert_eq!(scene.deployment(), None);
}

#[tokio::test(start_paused = true)]
async fn a_new_ca_bundle_is_written_for_every_gateway() {
    let scene = Scene::begin().await;
    let before = scene.writes();
    scene.outputs.authorities.send_replace("one and two".into());
    settle().await;
    let path = "/api/v1/namespaces/infra/configmaps/edge";
    let config = scene.server.get(path).expect("a ConfigMap");
    assert_eq!(config["data"]["ca.crt"], "one and two");
    assert_eq!(scene.writes(), before + 1, "no pod is replaced for it");
}

#[tokio::test(start_paused = true)]
async fn deployment_recovers_from_api_server_errors() {
    let scene = Scene::with(&[]);
    scene.server.fail([
        Fault::Refused(500, 0),
        Fault::AppliedWithoutAnswer,
        Fault::Refused(429, 1),
        Fault::Refused(503, 0),
    ]);
    scene.want("uid-1", Infrastructure::default());
    sleep(Duration::from_mins(1)).await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
    assert_eq!(scene.server.faults_left(), 0);
    // A rejection is reported at once, and retried.
    scene.server.fail([Fault::Refused(422, 0); 4]);
    scene.outputs.authorities.send_replace("other".into());
    settle().await;
    assert!(matches!(scene.deployment(), Some(Deployment::Refused(_))));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
}

#[tokio::test(start_paused = true)]
async fn proxies_are_deployed_only_once_the_ca_bundle_is_available() {
    let scene = Scene::with(&[]);
    scene.outputs.authorities.send_replace("".into());
    scene.want("uid-1", Infrastructure::default());
    settle().await;
    assert_eq!(scene.writes(), 0);
    scene.outputs.authorities.send_replace("one".into());
    settle().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
}
