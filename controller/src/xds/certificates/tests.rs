use serde_json::json;

use super::super::authority::tests::{authority, users_authority};
use super::super::cluster::{Cluster, Replica};
use super::*;

const SECRET: &str = "/secrets/controller-xds-ca";
const CONFIG_MAP: &str = "/configmaps/controller-xds-ca";

fn follower(cluster: &Arc<Cluster>) -> (Replica, Certificates) {
    let replica = cluster.replica(&[]);
    let certificates = Certificates::new(&replica.context);
    (replica, certificates)
}

fn leader(cluster: &Arc<Cluster>) -> (Replica, Certificates) {
    let (replica, certificates) = follower(cluster);
    replica.election.set(true);
    (replica, certificates)
}

fn bundle(cluster: &Cluster) -> Vec<String> {
    let config_map = cluster.object(CONFIG_MAP).expect("it is there");
    certificates(config_map["data"][BUNDLE].as_str().expect("a bundle"))
}

/// Puts an authority into the Secret, which keeps its label. Returns its certificate.
fn replace(cluster: &Cluster, authority: &Generated) -> String {
    let Generated { certificate, key } = authority;
    let encoded = |pem: &str| json!(ByteString(pem.as_bytes().to_vec()));
    let data = json!({"tls.crt": encoded(certificate), "tls.key": encoded(key)});
    cluster.change(SECRET, |secret| secret["data"] = data);
    certificates(certificate).remove(0)
}

const DAY: Duration = Duration::from_hours(24);

/// The value of a metric without labels.
fn metric(replica: &Replica, name: &str) -> String {
    let text = replica.context.metrics.text();
    let name = format!("gateway_controller_{name} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name));
    value.expect("it is there").to_owned()
}

#[tokio::test]
async fn the_leader_creates_the_authority_and_followers_wait_for_it() {
    let cluster = Cluster::new();
    let (_follower, mut waiting) = follower(&cluster);
    waiting.step().await;
    assert!(waiting.configs.is_none());
    assert_eq!(cluster.object(SECRET), None);

    let (replica, mut certificates) = leader(&cluster);
    certificates.step().await;
    assert!(certificates.configs.is_some());
    let trusted = bundle(&cluster);
    assert_eq!(trusted.len(), 1);
    let handed_over = replica.context.outputs.authorities.borrow().to_string();
    assert_eq!(super::certificates(&handed_over), trusted);

    waiting.step().await;
    assert!(waiting.configs.is_some());
    let signing = waiting.rotation.signing().expect("one signs");
    assert_eq!(signing.pem, trusted[0], "both are of one authority");
}

#[tokio::test]
async fn a_users_authority_signs_ten_minutes_after_it_is_in_the_bundle() {
    let cluster = Cluster::new();
    let (_replica, mut certificates) = leader(&cluster);
    certificates.step().await;
    let configs = certificates.configs.as_ref().expect("a certificate");
    let mut configs = configs.subscribe();
    let own = bundle(&cluster).remove(0);
    let users = replace(&cluster, &users_authority(SystemTime::now(), 30 * DAY));
    let now = Instant::now();
    certificates.compare(now).await.expect("it is read");
    assert_eq!(bundle(&cluster), [own.clone(), users.clone()]);

    // Seen in the cluster only now.
    let seen = now + Duration::from_secs(20);
    certificates.compare(seen).await.expect("it is read");
    for minutes in [5, 9] {
        let at = seen + Duration::from_mins(minutes);
        certificates.compare(at).await.expect("it is read");
        certificates.issue(at).expect("it signs");
        assert!(
            !configs.has_changed().expect("open"),
            "after {minutes} minutes"
        );
    }
    let at = seen + Duration::from_mins(10);
    certificates.compare(at).await.expect("it is read");
    certificates.issue(at).expect("it signs");
    assert!(configs.has_changed().expect("open"));
    configs.mark_unchanged();
    assert_eq!(bundle(&cluster), [users.clone(), own]);
    let later = at + Duration::from_hours(2);
    certificates.compare(later).await.expect("it is read");
    assert_eq!(bundle(&cluster), [users]);
    assert!(!configs.has_changed().expect("open"));
}

#[tokio::test]
async fn the_certificate_is_renewed_before_it_expires_even_without_the_api_server() {
    let cluster = Cluster::new();
    let (_replica, mut certificates) = leader(&cluster);
    certificates.step().await;
    let configs = certificates.configs.as_ref().expect("a certificate");
    let configs = configs.subscribe();
    cluster
        .is_away
        .store(true, std::sync::atomic::Ordering::Relaxed);
    certificates.step().await;
    assert!(!configs.has_changed().expect("open"));
    certificates
        .issue(Instant::now() + LEAF_AGE)
        .expect("it signs");
    assert!(configs.has_changed().expect("open"));
}

#[tokio::test]
async fn a_users_authority_is_not_replaced_before_it_expires_or_after() {
    for (age, is_valid) in [(Duration::ZERO, true), (2 * DAY, false)] {
        let cluster = Cluster::new();
        let (replica, mut certificates) = leader(&cluster);
        certificates.step().await;
        // Its life is so short that one of ours would be replaced.
        let users = users_authority(SystemTime::now() - age, DAY);
        replace(&cluster, &users);
        let before = cluster.object(SECRET);
        certificates.step().await;
        assert_eq!(cluster.object(SECRET), before);
        assert_eq!(
            metric(&replica, "xds_ca_invalid"),
            if is_valid { "0" } else { "1" }
        );
        assert_eq!(cluster.events().is_empty(), is_valid);
    }
}

#[tokio::test]
async fn a_generated_authority_is_replaced_once_it_is_old() {
    const YEAR: Duration = Duration::from_hours(365 * 24);
    for age in [7 * YEAR, 11 * YEAR] {
        let cluster = Cluster::new();
        let (_replica, mut certificates) = leader(&cluster);
        certificates.step().await;
        let old = Authority::generate(SystemTime::now() - age).expect("an authority");
        let old = replace(&cluster, &old);
        let annotations = json!({"example.com/owner": "infra"});
        cluster.change(SECRET, |secret| {
            secret["metadata"]["annotations"] = annotations.clone();
        });
        certificates.step().await;
        let secret = cluster.object(SECRET).expect("it is there");
        let data: BTreeMap<String, ByteString> =
            serde_json::from_value(secret["data"].clone()).expect("data");
        let new = String::from_utf8(data["tls.crt"].0.clone()).expect("PEM");
        assert_ne!(super::certificates(&new), [old]);
        assert_eq!(secret["metadata"]["annotations"], annotations);
    }
}

#[tokio::test]
async fn an_invalid_authority_secret_is_reported_while_the_previous_one_stays_in_use() {
    let cluster = Cluster::new();
    let (replica, mut certificates) = leader(&cluster);
    certificates.step().await;
    let before = bundle(&cluster);
    let (own, other) = (
        cluster.object(SECRET),
        Authority::generate(SystemTime::now()),
    );
    let other = other.expect("an authority");
    // The certificate is replaced, and the key is not.
    let certificate = json!(ByteString(other.certificate.into_bytes()));
    cluster.change(SECRET, |secret| secret["data"]["tls.crt"] = certificate);
    cluster.change(CONFIG_MAP, |bundle| bundle["data"] = json!({}));
    certificates.step().await;
    certificates.step().await;
    assert_eq!(metric(&replica, "xds_ca_invalid"), "1");
    assert_eq!(bundle(&cluster), before, "it is published again");
    let events = cluster.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["regarding"]["name"], "controller-xds-ca");
    let note = events[0]["note"].as_str().expect("a text");
    assert!(
        note.contains("tls.key does not belong to tls.crt"),
        "{note}"
    );
    assert!(note.contains("delete the Secret"), "{note}");
    assert!(note.contains("the previous one stays in use"), "{note}");

    cluster.change(SECRET, |secret| *secret = own.expect("it is there"));
    certificates.step().await;
    assert_eq!(metric(&replica, "xds_ca_invalid"), "0");
}

#[tokio::test]
async fn an_invalid_authority_secret_is_ignored() {
    let cluster = Cluster::new();
    let (_replica, mut certificates) = leader(&cluster);
    certificates.step().await;
    let before = bundle(&cluster);
    let broken = json!({"tls.crt": json!(ByteString(authority().pem.into_bytes()))});
    cluster.change(SECRET, |secret| secret["data"] = broken);
    let failure = certificates
        .compare(Instant::now())
        .await
        .expect_err("it is refused");
    let text = failure.to_string();
    assert!(
        text.contains("controller-xds-ca") && text.contains("tls.key"),
        "{text}"
    );
    assert_eq!(bundle(&cluster), before);
    let (_restarted, mut certificates) = leader(&cluster);
    certificates.step().await;
    assert!(certificates.configs.is_none(), "it signs with nothing else");
}

/// Proxies learn of the new authority only minutes later.
#[tokio::test]
async fn an_authority_that_was_replaced_signs_after_a_restart_until_the_next_one_is_announced() {
    let cluster = Cluster::new();
    let (_replica, mut certificates) = leader(&cluster);
    certificates.step().await;
    let own = bundle(&cluster).remove(0);
    let users = replace(&cluster, &users_authority(SystemTime::now(), 30 * DAY));
    certificates.step().await;
    assert_eq!(bundle(&cluster), [own.clone(), users.clone()]);
    let signing = |certificates: &Certificates| {
        let signing = certificates.rotation.signing();
        signing.expect("one signs").pem.clone()
    };

    let (_restarted, mut restarted) = leader(&cluster);
    restarted.step().await;
    assert_eq!(signing(&restarted), own);
    assert_eq!(bundle(&cluster), [own.clone(), users.clone()]);
    let (_follower, mut following) = follower(&cluster);
    following.step().await;
    assert_eq!(signing(&following), own);
    let announced = Instant::now() + Duration::from_mins(11);
    restarted.compare(announced).await.expect("it is read");
    assert_eq!(signing(&restarted), users);

    let (_restarted, mut restarted) = leader(&cluster);
    restarted.step().await;
    assert_eq!(signing(&restarted), users, "the former one signs no more");
}

#[tokio::test]
async fn an_authority_that_proxies_do_not_trust_any_more_does_not_sign_after_a_restart() {
    let cluster = Cluster::new();
    let (_replica, mut certificates) = leader(&cluster);
    certificates.step().await;
    let users = replace(&cluster, &users_authority(SystemTime::now(), 30 * DAY));
    cluster.change(CONFIG_MAP, |bundle| bundle["data"] = json!({BUNDLE: users}));
    let (_restarted, mut restarted) = leader(&cluster);
    restarted.step().await;
    assert_eq!(restarted.rotation.signing().expect("one signs").pem, users);
}
