use std::time::Instant;

use tokio::net::{TcpSocket, TcpStream};

use super::*;

#[test]
fn controller_addresses_are_urls_without_a_path() {
    let ca = Some(PathBuf::from("/ca.crt"));
    for (address, shown) in [
        ("http://localhost:9978", "http://localhost:9978"),
        ("https://user:word@[::1]:9978/", "https://[::1]:9978"),
        ("https://controller", "https://controller"),
    ] {
        let controller = Controller::new(address, ca.clone(), None).expect(address);
        assert_eq!(controller.to_string(), shown);
    }
    for address in [
        "",
        "localhost:9978",
        "ftp://a",
        "http://a/b",
        "http://a?b",
        "/a",
    ] {
        let error = Controller::new(address, ca.clone(), None).expect_err(address);
        assert_eq!(error, InvalidAddress::NotAnAddress(address.to_owned()));
    }
    let error = Controller::new("https://a", None, None).expect_err("nothing verifies it");
    assert!(matches!(error, InvalidAddress::NoAuthority(_)));
}

#[test]
fn unusable_files_are_named() {
    let missing = Path::new("/nonexistent/file");
    for error in [
        read_authorities(missing)
            .expect_err("there is none")
            .to_string(),
        read_token(missing).expect_err("there is none").to_string(),
    ] {
        assert!(
            error.contains("/nonexistent/file cannot be used"),
            "{error}"
        );
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let error = read_authorities(&source).expect_err("it is not PEM");
    assert!(error.to_string().contains("no PEM certificate"), "{error}");
    let error = read_token(&source).expect_err("it has lines");
    assert!(error.to_string().contains("more than a token"), "{error}");
}

#[test]
fn connecting_to_an_unresponsive_address_fails_quickly() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
        let listener = socket.listen(0).expect("it listens");
        let address = listener.local_addr().expect("an address");
        // The queue has room for one connection: the packets of others are dropped.
        let _queued = TcpStream::connect(address)
            .await
            .expect("the queue has room");
        let controller = Controller::new(&format!("http://{address}"), None, None);
        let controller = controller.expect("an address");
        let started = Instant::now();
        let error = controller.connect().await.expect_err("no answer");
        assert!(started.elapsed() < CONNECT / 2, "{error}");
        assert!(matches!(error, ConnectError::Unreachable(_)), "{error}");
    });
}

#[test]
fn a_port_that_nothing_listens_at_is_told_from_other_failures() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // Bound, so that nobody else gets the port.
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
        let address = socket.local_addr().expect("an address");
        let controller = Controller::new(&format!("http://{address}"), None, None);
        let controller = controller.expect("an address");
        let error = controller.connect().await.expect_err("refused");
        assert!(matches!(error, ConnectError::NotListening(_)), "{error}");
    });
}
