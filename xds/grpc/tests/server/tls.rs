//! TLS, its rotation, and one port for both.

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use xds_grpc::server::{Limits, Transport};

use crate::support::{Authority, Controller, Stream, within};

async fn channel(controller: &Controller, trusted: &Authority) -> Result<Channel, String> {
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&trusted.pem));
    let tls = tls.domain_name("localhost");
    let endpoint = Endpoint::from_shared(format!("https://{}", controller.address));
    let endpoint = endpoint.expect("an address").tls_config(tls).expect("TLS");
    within(endpoint.connect())
        .await
        .map_err(|error| format!("{error:?}"))
}

async fn proxy(controller: &Controller, channel: Channel, name: &str) -> Stream {
    let stream = Stream::open(channel, Some("a/web"), &format!("a/web/{name}")).await;
    let mut stream = stream.expect("it is served");
    stream.subscribe(&std::collections::BTreeMap::new()).await;
    assert_eq!(stream.names().await, ["x"], "{}", controller.address);
    stream
}

#[tokio::test]
async fn certificates_rotate_under_open_streams() {
    let (old, new) = (Authority::new(), Authority::new());
    let configs = old.configs();
    let transport = Transport::Tls(configs.subscribe());
    let controller = Controller::with(Limits::default(), transport).await;
    controller.publish(&[("x", Some(1))]);
    let trusting = channel(&controller, &old)
        .await
        .expect("it trusts the old authority");
    let mut before = proxy(&controller, trusting, "before").await;

    // Another leaf of the same authority.
    configs.send_replace(old.config());
    let trusting = channel(&controller, &old)
        .await
        .expect("it trusts the old authority");
    let mut between = proxy(&controller, trusting, "between").await;

    configs.send_replace(new.config());
    let error = channel(&controller, &old)
        .await
        .expect_err("it does not trust the new one");
    assert!(error.contains("InvalidCertificate"), "{error}");
    let trusting = channel(&controller, &new)
        .await
        .expect("it trusts the new authority");
    let mut after = proxy(&controller, trusting, "after").await;

    controller.publish(&[("x", Some(2))]);
    for stream in [&mut before, &mut between, &mut after] {
        assert_eq!(stream.names().await, ["x"]);
    }
}

#[tokio::test]
async fn a_port_accepts_plain_text_tls_or_both() {
    let authority = Authority::new();
    let configs = authority.configs();
    let receiver = || configs.subscribe();
    for (transport, takes_plaintext, takes_tls) in [
        (Transport::Plaintext, true, false),
        (Transport::Tls(receiver()), false, true),
        (Transport::Either(receiver()), true, true),
    ] {
        let controller = Controller::with(Limits::default(), transport).await;
        controller.publish(&[("x", Some(1))]);
        let tls = channel(&controller, &authority).await;
        assert_eq!(tls.is_ok(), takes_tls);
        if let Ok(channel) = tls {
            proxy(&controller, channel, "tls").await;
        }
        let plaintext = within(controller.endpoint().connect()).await;
        let plaintext = Stream::open(
            plaintext.expect("it listens"),
            Some("a/web"),
            "a/web/plaintext",
        );
        assert_eq!(within(plaintext).await.is_ok(), takes_plaintext);
    }
}
