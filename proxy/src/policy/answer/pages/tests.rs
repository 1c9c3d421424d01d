//! Which page an error gets, and in which type.

use http::HeaderValue;
use xds::model::{Body, Content};

use super::*;

fn content(media_type: &'static str) -> Content {
    Content {
        media_type: HeaderValue::from_static(media_type),
        body: Body::new(media_type.as_bytes()),
    }
}

fn page(statuses: &[&str], source: ErrorSource, types: &[&'static str]) -> model::ErrorPage {
    let statuses = statuses
        .iter()
        .map(|text| StatusRange::parse(text).expect("statuses"));
    model::ErrorPage {
        statuses: statuses.collect(),
        source,
        content: model::PageContent::Bodies(types.iter().map(|it| content(it)).collect()),
    }
}

/// The type of the page, as it was configured.
fn chosen(pages: &ErrorPages, status: u16, source: PageSource, accept: &[&str]) -> Option<String> {
    let accept = accept.iter().map(|it| it.as_bytes());
    let page = pages.choose(status, source, accept)?;
    let PageContent::Body { content, .. } = page.content else {
        panic!("it has bodies");
    };
    let line = String::from_utf8_lossy(&content.type_line);
    let value = line.trim_end().strip_prefix("Content-Type: ");
    value.map(str::to_owned)
}

#[test]
fn the_first_page_that_is_for_an_error_applies() {
    let pages = ErrorPages::compile(
        "TrafficPolicy/a/b",
        &[
            page(&["404", "502-504"], ErrorSource::Gateway, &["a/gateway"]),
            page(&["503"], ErrorSource::Any, &["a/any"]),
            page(&["400-599"], ErrorSource::Backend, &["a/backend"]),
        ],
    );
    for (status, source, expected) in [
        (404, PageSource::Gateway, Some("a/gateway")),
        (503, PageSource::Gateway, Some("a/gateway")),
        (504, PageSource::Gateway, Some("a/gateway")),
        (500, PageSource::Gateway, None),
        (503, PageSource::Backend, Some("a/any")),
        (404, PageSource::Backend, Some("a/backend")),
        (599, PageSource::Backend, Some("a/backend")),
        (200, PageSource::Backend, None),
    ] {
        let page = chosen(&pages, status, source, &[]);
        assert_eq!(page.as_deref(), expected, "{status} {source:?}");
    }
}

#[test]
fn accept_chooses_the_type() {
    let types = ["text/html; charset=utf-8", "application/json", "text/plain"];
    let pages = ErrorPages::compile("p", &[page(&["404"], ErrorSource::Gateway, &types)]);
    let [html, json, plain] = types;
    for (accept, expected) in [
        (&[][..], html),
        (&["*/*"], html),
        (&[""], html),
        (
            &["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
            html,
        ),
        (&["application/json"], json),
        (&["APPLICATION/JSON"], json),
        (&["application/json, */*;q=0.1"], json),
        (&["text/plain;q=0.5, application/json;q=0.4"], plain),
        (
            &["text/plain; q=0.3;level=1", "application/json;q=0.31"],
            json,
        ),
        // The more specific range wins at the same weight, and decides about its type.
        (&["*/*, application/json"], json),
        (&["text/*, application/json"], json),
        (&["text/html;q=0, */*"], json),
        (&["text/*;q=0.2, application/*;q=0.3"], json),
        (&["text/plain, */*;q=0.9"], plain),
        // The order of the bodies decides between equals, and the first one is for those who like none.
        (&["text/plain, text/html"], html),
        (&["image/png"], html),
        (&["text/html;q=0"], html),
        (&["text/plain;q=2, application/json;q=0.001"], json),
        (&["text/plain;q=x, application/json;q=0.1"], json),
        (&["text/plain;q=0.1234, application/json;q=0.1"], json),
        (&["text/plain;q=1.000, application/json;q=0.999"], plain),
        (&[";;,,/,*/json"], html),
    ] {
        let page = chosen(&pages, 404, PageSource::Gateway, accept);
        assert_eq!(page.as_deref(), Some(expected), "{accept:?}");
    }
}

/// A request of 64 KiB could otherwise name 20 000 ranges, to be compared with each of eight bodies.
#[test]
fn only_the_first_ranges_are_read() {
    let pages = ErrorPages::compile(
        "p",
        &[page(
            &["404"],
            ErrorSource::Gateway,
            &["text/html", "text/plain"],
        )],
    );
    let accept = |before: usize| "a/b,".repeat(before) + ",, ,text/plain";
    for (before, expected) in [
        (ACCEPT_RANGES - 1, "text/plain"),
        (ACCEPT_RANGES, "text/html"),
        (10_000, "text/html"),
    ] {
        let page = chosen(&pages, 404, PageSource::Gateway, &[&accept(before)]);
        assert_eq!(page.as_deref(), Some(expected), "{before}");
        let fields = vec!["a/b"; before];
        let fields = [&fields[..], &["text/plain"]].concat();
        let page = chosen(&pages, 404, PageSource::Gateway, &fields);
        assert_eq!(page.as_deref(), Some(expected), "{before} fields");
    }
}

/// Nor is a value read for each of the bodies.
#[test]
fn the_values_of_accept_are_read_once() {
    let types = ["text/html", "application/json", "text/plain"];
    let pages = ErrorPages::compile("p", &[page(&["404"], ErrorSource::Gateway, &types)]);
    let read = std::cell::Cell::new(0);
    let accept = ["text/plain", "a/b"].into_iter().map(|value| {
        read.set(read.get() + 1);
        value.as_bytes()
    });
    let page = pages.choose(404, PageSource::Gateway, accept);
    assert!(page.is_some());
    assert_eq!(read.get(), 2);
}

#[test]
fn fields_of_the_old_content_are_known() {
    for name in [
        "Content-Type",
        "content-length",
        "Content-Security-Policy",
        "ETag",
        "last-modified",
        "Repr-Digest",
        "Accept-Ranges",
    ] {
        assert!(describes_content(name.as_bytes()), "{name}");
    }
    for name in [
        "Content",
        "Set-Cookie",
        "Access-Control-Allow-Origin",
        "WWW-Authenticate",
        "Retry-After",
        "Location",
        "Vary",
        "X-Content-Type",
    ] {
        assert!(!describes_content(name.as_bytes()), "{name}");
    }
}
