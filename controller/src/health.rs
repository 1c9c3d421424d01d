//! What probes and scrapes of this replica get.

use std::sync::Arc;

use admin::{Handles, LogControl};

use crate::isolation;
use crate::metrics::Metrics;
use crate::outputs::Outputs;
use crate::watch::Readiness;

/// What the servers of this process need: probes, metrics and the log.
#[must_use]
pub fn handles(
    readiness: Readiness,
    outputs: Arc<Outputs>,
    metrics: Metrics,
    log: LogControl,
    replica: &str,
) -> Handles {
    let (replica, heard) = (replica.to_owned(), readiness.clone());
    Handles {
        probe_fields: Box::new(move || isolation::answer(&replica, heard.silence())),
        metrics: Box::new(move |_, _| (Metrics::CONTENT_TYPE, metrics.text())),
        pending: Box::new(move || pending(&readiness, &outputs)),
        ..Handles::of_process(log)
    }
}

/// What readiness waits for: every watch is synced, and the result is published and current, so that
/// proxies that connect are served. Empty when ready.
pub(crate) fn pending(readiness: &Readiness, outputs: &Outputs) -> Vec<String> {
    let unsynced = readiness.unsynced().into_iter();
    let mut pending: Vec<_> = unsynced
        .map(|(kind, error)| match error {
            Some(error) => format!("{kind} is not synced: {error}"),
            None => format!("{kind} is not synced"),
        })
        .collect();
    if pending.is_empty() && !outputs.published.views().is_complete() {
        pending.push("the first configuration is being translated".to_owned());
    }
    pending.extend(outputs.isolated.borrow().as_ref().map(ToString::to_string));
    pending
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};
    use std::time::Duration;

    use admin::{Address, BoundSockets, Sockets};
    use tracing_subscriber::{EnvFilter, Registry, reload};
    use xds::delta::Publication;

    use super::*;
    use crate::watch::{Kinds, State};

    fn bind() -> (BoundSockets, SocketAddr) {
        let bound = admin::bind(&"127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let addresses = bound.addresses();
        let [Address::Tcp(address)] = &addresses[..] else {
            panic!("{addresses:?}");
        };
        (bound, *address)
    }

    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let timeout = stream.set_read_timeout(Some(Duration::from_secs(20)));
        timeout.expect("a timeout");
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        response
    }

    #[test]
    fn probes_and_scrapes_are_answered_while_others_hold_connections() {
        let ((readiness, probes), (metrics, scrapes)) = (bind(), bind());
        let sockets = Sockets {
            readiness,
            metrics,
            ..Sockets::default()
        };
        let (_layer, filter) = reload::Layer::<_, Registry>::new(EnvFilter::new("info"));
        let log = LogControl::new(filter, "info".to_owned());
        let readiness = Readiness::new(Kinds::new(&[]));
        let handles = handles(readiness, Arc::default(), Metrics::default(), log, "this");
        let _server = admin::start_for_process(sockets, handles).expect("it starts");
        for _ in 0..3 {
            let hold = |address| TcpStream::connect(address).expect("it listens");
            let _held: Vec<_> = (0..300)
                .flat_map(|_| [hold(probes), hold(scrapes)])
                .collect();
            for (address, path, expected) in [
                (probes, "/healthz", "HTTP/1.1 200 OK"),
                (probes, "/readyz", "HTTP/1.1 503 Service Unavailable"),
                (scrapes, "/metrics", "HTTP/1.1 200 OK"),
            ] {
                let response = get(address, path);
                assert!(response.starts_with(expected), "{path}: {response}");
            }
        }
    }

    #[test]
    fn readiness_requires_synced_kinds_and_a_publication() {
        let kinds = Kinds::new(&[]);
        let readiness = Readiness::new(kinds.clone());
        let outputs = Outputs::default();
        assert_eq!(pending(&readiness, &outputs).len(), kinds.iter().count());
        for id in kinds.iter() {
            readiness.set(id, State::Synced);
        }
        let waits = pending(&readiness, &outputs);
        assert_eq!(waits, ["the first configuration is being translated"]);
        outputs.published.publish(Publication::default());
        assert_eq!(pending(&readiness, &outputs), [""; 0]);
    }

    #[test]
    fn pending_conditions_are_named_with_their_error() {
        let kinds = Kinds::new(&[]);
        let readiness = Readiness::new(kinds.clone());
        let id = kinds.iter().next().expect("a kind");
        readiness.fail(id, "403 forbidden");
        let waits = pending(&readiness, &Outputs::default());
        let expected = format!("{} is not synced: 403 forbidden", id.name());
        assert!(waits.contains(&expected), "{waits:?}");
    }
}
