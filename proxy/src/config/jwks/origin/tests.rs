use xds::model::{BackendKey, InvalidBackend, JwksLocation, ObjectName, Target};

use super::{Addresses, Origin};
use crate::config::Snapshot;

fn of_url(url: &str) -> Result<Origin, String> {
    let location = JwksLocation::Url(url.to_owned());
    let origin = Origin::of(&location, &Snapshot::default());
    origin.map_err(|error| error.to_string())
}

#[test]
fn a_url_yields_the_address_and_the_path() {
    for (url, address, host, path) in [
        ("http://a.test/keys", "a.test:80", "a.test", "/keys"),
        ("http://a.test", "a.test:80", "a.test", "/"),
        (
            "http://A.test:8080/k?x=1",
            "a.test:8080",
            "A.test:8080",
            "/k?x=1",
        ),
        (
            "http://127.0.0.1:81/k",
            "127.0.0.1:81",
            "127.0.0.1:81",
            "/k",
        ),
        ("http://[::1]/k", "[::1]:80", "[::1]", "/k"),
    ] {
        let origin = of_url(url).expect(url);
        let found = match &origin.addresses {
            Addresses::Known(addresses) => addresses[0].to_string(),
            Addresses::Name(name, port) => format!("{name}:{port}"),
        };
        assert_eq!(
            (found.as_str(), origin.host.as_str()),
            (address, host),
            "{url}"
        );
        assert_eq!(origin.path, path, "{url}");
        assert!(origin.tls.is_none(), "{url}");
    }
}

#[test]
fn an_unusable_url_is_explained() {
    for (url, why) in [
        ("", "cannot be read"),
        ("/keys", "has another scheme"),
        ("a.test/keys", "cannot be read"),
        ("ftp://a.test/keys", "has another scheme"),
        ("file:///etc/passwd", "cannot be read"),
        ("http://user:secret@a.test/", "contains user information"),
        ("http://a_b.test/", "has an invalid host"),
    ] {
        let why_not = of_url(url).expect_err(url);
        assert!(why_not.contains(why), "{url}: {why_not}");
    }
}

#[test]
fn a_missing_backend_is_explained() {
    let missing = Target::Backend(BackendKey::new(&ObjectName::new("a", "b")));
    for (target, why) in [
        (missing, "there is no Backend/a/b"),
        (
            Target::Invalid {
                why: InvalidBackend::NotFound,
                reference: "Service/a/none:80".to_owned(),
            },
            "NotFound",
        ),
    ] {
        let path = "/keys".to_owned();
        let location = JwksLocation::Backend { target, path };
        let origin = Origin::of(&location, &Snapshot::default());
        let error = origin.expect_err("nowhere").to_string();
        assert!(error.contains(why), "{error}");
    }
}
