//! Answers of the gateway.

use std::num::NonZeroU32;

use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{
    AnswerContent, AnswerStatus, Body, Content, ErrorPage, ErrorSource, PageContent, RespondPolicy,
    StatusRange,
};

use super::value::{header_name, header_value, target};

prop_compose! {
    pub(super) fn respond()(
        status in (200..600_u32).prop_filter("a part of a content", |it| *it != 206),
        content in prop_oneof![
            Just(AnswerContent::Empty),
            Just(AnswerContent::Missing),
            content().prop_map(AnswerContent::Given),
        ],
        headers in vec((header_name(), header_value()), 0..3),
        retry_after in option::of(any::<NonZeroU32>()),
        except in option::of("request\\.path == '[a-z]{1,8}'"),
    ) -> RespondPolicy {
        let status = AnswerStatus::new(status).expect("a status");
        let content = if status.has_content() { content } else { AnswerContent::Empty };
        RespondPolicy { status, content, headers, retry_after, except }
    }
}

prop_compose! {
    pub(super) fn error_page()(
        statuses in vec(range(), 1..4),
        source in prop_oneof![
            Just(ErrorSource::Gateway),
            Just(ErrorSource::Backend),
            Just(ErrorSource::Any),
        ],
        content in page_content(),
    ) -> ErrorPage {
        ErrorPage { statuses, source, content }
    }
}

fn page_content() -> impl Strategy<Value = PageContent> {
    prop_oneof![
        vec(content(), 1..4).prop_map(PageContent::Bodies),
        target().prop_map(PageContent::Server),
    ]
}

fn range() -> impl Strategy<Value = StatusRange> {
    (400..600_u32, 0..200_u32).prop_map(|(first, more)| {
        StatusRange::new(first, (first + more).min(599)).expect("a range")
    })
}

prop_compose! {
    fn content()(
        media_type in header_value().prop_filter("a type", |it| !it.is_empty()),
        body in vec(any::<u8>(), 0..16),
    ) -> Content {
        Content { media_type, body: Body::new(&body) }
    }
}
