//! A proxy that reconnects reports digests.

use tempfile::TempDir;
use xds::delta::{Client, Report};
use xds_grpc::client::{self, Stream};

use crate::support::{Controller, within};

/// Connects a client with a token of this test's Gateway.
async fn connect(controller: &Controller, client: &mut Client) -> Stream {
    let folder = TempDir::new().expect("a temporary folder");
    let token = folder.path().join("token");
    std::fs::write(&token, "a/web").expect("our own folder");
    let address = format!("http://{}", controller.address);
    let connecting = client::Controller::new(&address, None, Some(token)).expect("an address");
    let stream = within(connecting.connect()).await.expect("it is served");
    assert_eq!(stream.report(), Report::Digests);
    for request in client.connect(stream.report()) {
        stream.send(request);
    }
    stream
}

/// The names of the next batch, which is accepted, and how many types were asked for before it.
async fn batch(client: &mut Client, stream: &mut Stream) -> (Vec<String>, usize) {
    let mut asked = 0;
    loop {
        let response = within(stream.next())
            .await
            .expect("no error")
            .expect("no end");
        if let Some(versions) = client.answer(&response) {
            stream.send(versions);
            asked += 1;
        } else if let Some(received) = client.receive(response).expect("it is a part") {
            let names = received.changes.iter().map(|(key, change)| {
                let sign = if change.is_some() { "" } else { "-" };
                format!("{sign}{}", key.key)
            });
            let names = names.collect();
            for request in client.acknowledge(received, Vec::new()) {
                stream.send(request);
            }
            return (names, asked);
        }
    }
}

#[tokio::test]
async fn a_proxy_lists_what_it_holds_only_if_it_differs() {
    let controller = Controller::start().await;
    controller.publish(&[("x", Some(1)), ("y", Some(1))]);
    let mut client = Client::new("a/web/p".to_owned());
    let mut stream = connect(&controller, &mut client).await;
    let all = ["Service/a/x", "Service/a/y"].map(str::to_owned);
    assert_eq!(batch(&mut client, &mut stream).await, (all.into(), 0));
    drop(stream);

    let mut stream = connect(&controller, &mut client).await;
    assert_eq!(batch(&mut client, &mut stream).await, (Vec::new(), 0));
    drop(stream);

    controller.publish(&[("x", None), ("y", Some(2))]);
    let mut stream = connect(&controller, &mut client).await;
    let changes = ["-Service/a/x", "Service/a/y"].map(str::to_owned);
    assert_eq!(batch(&mut client, &mut stream).await, (changes.into(), 1));
}
