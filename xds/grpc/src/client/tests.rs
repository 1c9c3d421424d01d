use super::*;

#[test]
fn an_address_is_a_url_of_a_host() {
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
fn files_that_cannot_be_used_are_named() {
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
