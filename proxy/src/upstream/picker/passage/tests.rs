use std::rc::Rc;

use super::super::PickError;
use super::super::messages::{
    BodyMutation, BodySendMode, CommonResponse, HeaderSendMode, HttpBody, ImmediateResponse,
    MutatedBody, PhaseResponse, ProcessingMode, ProcessingResponse, ResponseMessage,
    TrailersResponse,
};
use super::{BodySource, Interest, Passage, Step};
use crate::limits::{
    PICKER_BODY_BYTES, PICKER_BODY_MESSAGES, PICKER_WINDOW_BYTES, PICKER_WINDOW_MESSAGES,
};
use crate::memory::BufferPool;

fn message(response: ResponseMessage) -> ProcessingResponse {
    ProcessingResponse {
        response: Some(response),
        ..ProcessingResponse::default()
    }
}

fn head() -> ProcessingResponse {
    message(ResponseMessage::ResponseHeaders(PhaseResponse::default()))
}

fn body(mutation: Option<MutatedBody>) -> ProcessingResponse {
    message(ResponseMessage::ResponseBody(PhaseResponse {
        response: Some(CommonResponse {
            body_mutation: mutation.map(|it| BodyMutation { mutation: Some(it) }),
            ..CommonResponse::default()
        }),
    }))
}

fn streamed(text: &str, end_of_stream: bool) -> ProcessingResponse {
    let body = text.as_bytes().to_vec();
    self::body(Some(MutatedBody::Streamed(HttpBody {
        body,
        end_of_stream,
    })))
}

fn step(text: &str, is_last: bool) -> Step {
    let bytes = text.as_bytes().to_vec();
    Step::Body { bytes, is_last }
}

fn new_passage(interest: Interest) -> Passage {
    Passage::new(interest, &Rc::default())
}

/// What would be sent instead of the picker's bytes.
fn rest(passage: &Passage) -> Option<&[u8]> {
    passage.rest().map(|rest| &**rest)
}

/// A passage after the response to the head, with these pieces of the body sent.
fn passage_with_sent(pieces: &[&str]) -> Passage {
    let mut passage = new_passage(Interest::HeadAndBody);
    let taken = passage.take(head());
    assert_eq!(taken, Ok(Step::Head(None, BodySource::Picker)));
    for piece in pieces {
        passage.note_sent(piece.as_bytes(), false);
    }
    passage
}

#[test]
fn an_unaltered_streamed_body_can_be_continued_without_the_picker() {
    let mut passage = passage_with_sent(&["one", "two"]);
    assert_eq!(passage.take(streamed("on", false)), Ok(step("on", false)));
    assert_eq!(rest(&passage), Some(&b"etwo"[..]));
    assert_eq!(
        passage.take(streamed("etwo", false)),
        Ok(step("etwo", false))
    );
    assert_eq!(rest(&passage), Some(&b""[..]));
    passage.note_sent(b"three", true);
    assert_eq!(
        passage.take(streamed("three", true)),
        Ok(step("three", true))
    );
    assert!(!passage.awaits_end());
    let more = passage.take(streamed("more", true));
    assert_eq!(more, Err(PickError::Unordered), "it has ended");
}

#[test]
fn an_altered_body_cannot_be_continued_without_the_picker() {
    for returned in ["One", "one more than was sent"] {
        let mut passage = passage_with_sent(&["one"]);
        assert_eq!(
            passage.take(streamed(returned, false)),
            Ok(step(returned, false))
        );
        assert_eq!(rest(&passage), None, "{returned}");
        passage.note_sent(b"two", false);
        assert_eq!(rest(&passage), None, "{returned}");
    }
}

#[test]
fn a_picker_may_respond_to_each_message() {
    let mut passage = passage_with_sent(&["one", "two", "three"]);
    passage.note_sent(b"four", true);
    assert_eq!(passage.take(body(None)), Ok(step("one", false)));
    let replacement = MutatedBody::Whole(b"2".to_vec());
    assert_eq!(rest(&passage), Some(&b"twothreefour"[..]));
    assert_eq!(passage.take(body(Some(replacement))), Ok(step("2", false)));
    assert_eq!(rest(&passage), None, "it is altered");
    let cleared = passage.take(body(Some(MutatedBody::Clear(true))));
    assert_eq!(cleared, Ok(step("", false)));
    assert_eq!(passage.take(body(None)), Ok(step("four", true)));
    assert_eq!(passage.take(body(None)), Err(PickError::Unordered));
}

#[test]
fn an_unexpected_response_of_the_picker_is_an_error() {
    assert_eq!(
        passage_with_sent(&[]).take(body(None)),
        Err(PickError::Unordered)
    );
    assert_eq!(
        passage_with_sent(&[]).take(head()),
        Err(PickError::Unordered)
    );
    let mut early = new_passage(Interest::HeadAndBody);
    early.note_sent(b"one", false);
    assert_eq!(
        early.take(streamed("one", false)),
        Err(PickError::Unordered)
    );
    let trailers = || {
        message(ResponseMessage::ResponseTrailers(
            TrailersResponse::default(),
        ))
    };
    assert_eq!(
        passage_with_sent(&["one"]).take(trailers()),
        Err(PickError::Unordered)
    );
    let mut replaced = CommonResponse {
        status: 1,
        ..CommonResponse::default()
    };
    replaced.body_mutation = Some(BodyMutation {
        mutation: Some(MutatedBody::Whole(b"new".to_vec())),
    });
    let replaced = message(ResponseMessage::ResponseHeaders(PhaseResponse {
        response: Some(replaced),
    }));
    let taken = new_passage(Interest::HeadAndBody).take(replaced);
    assert_eq!(taken, Err(PickError::Unordered));
}

#[test]
fn the_bytes_kept_for_the_picker_are_bounded() {
    let piece = vec![b'x'; PICKER_WINDOW_BYTES / 2];
    let mut passage = passage_with_sent(&[]);
    passage.note_sent(&piece, false);
    assert!(!passage.is_full());
    passage.note_sent(&piece, false);
    assert!(passage.is_full() && passage.is_unanswered());
    passage.assume_held_back();
    assert!(!passage.is_full());
    assert!(rest(&passage).is_some(), "it fits");
    passage.note_sent(b"more", false);
    assert_eq!(rest(&passage), None);
    assert!(passage.kept.is_none() && passage.unanswered.is_empty());
    let mut passage = passage_with_sent(&[]);
    for _ in 0..PICKER_WINDOW_MESSAGES {
        assert!(!passage.is_full());
        passage.note_sent(b"x", false);
    }
    assert!(passage.is_full());
    assert_eq!(passage.take(body(None)), Ok(step("x", false)));
    assert!(!passage.is_full() && !passage.is_unanswered());
}

#[test]
fn a_body_is_kept_until_the_head_is_answered() {
    let mut passage = new_passage(Interest::HeadAndBody);
    let piece = vec![b'x'; PICKER_WINDOW_BYTES];
    passage.note_sent(&piece, false);
    assert!(passage.is_full() && passage.is_unanswered());
    passage.assume_held_back();
    for _ in 1..PICKER_BODY_BYTES / piece.len() {
        assert!(!passage.is_full());
        passage.note_sent(&piece, false);
    }
    assert!(passage.is_full() && passage.is_unanswered());
    assert_eq!(passage.outstanding(), PICKER_BODY_BYTES);
    assert!(rest(&passage).is_some(), "nothing is lost");
    assert!(passage.take(head()).is_ok());
    while !passage.unanswered.is_empty() {
        assert!(matches!(passage.take(body(None)), Ok(Step::Body { bytes, .. }) if bytes == piece));
    }
    assert!(!passage.is_full() && passage.outstanding() == 0);
    let mut passage = new_passage(Interest::HeadAndBody);
    passage.assume_held_back();
    for _ in 0..PICKER_BODY_MESSAGES {
        assert!(!passage.is_full());
        passage.note_sent(b"x", false);
    }
    assert!(passage.is_full());
}

#[test]
fn kept_bytes_count_as_buffers_in_use() {
    let pool = Rc::new(BufferPool::default());
    let piece = vec![b'x'; PICKER_WINDOW_BYTES];
    let sent = || {
        let mut passage = Passage::new(Interest::HeadAndBody, &pool);
        passage.assume_held_back();
        for _ in 0..4 {
            passage.note_sent(&piece, false);
        }
        assert!(pool.lent() >= 4 * piece.len(), "{}", pool.lent());
        assert!(passage.take(head()).is_ok());
        passage
    };
    let mut acknowledged = sent();
    for _ in 0..4 {
        assert!(acknowledged.take(body(None)).is_ok());
    }
    assert_eq!(pool.lent(), 0, "all was returned");
    acknowledged.note_sent(b"an event", false);
    assert!(pool.lent() < 100, "{}", pool.lent());
    drop(acknowledged);
    let mut altered = sent();
    assert!(altered.take(streamed("other", false)).is_ok());
    assert_eq!(pool.lent(), 0, "nothing of an altered body can be used");
    let rest = sent().take_rest().expect("nothing is lost");
    assert_eq!(rest.len(), 4 * piece.len());
    assert!(pool.lent() >= rest.len(), "{}", pool.lent());
    drop(rest);
    assert_eq!(pool.lent(), 0);
}

#[test]
fn returned_bytes_are_not_kept() {
    let mut passage = passage_with_sent(&[]);
    let piece = "x".repeat(1000);
    for _ in 0..10 * PICKER_WINDOW_BYTES / piece.len() {
        passage.note_sent(piece.as_bytes(), false);
        passage.note_sent(b"next", false);
        assert_eq!(
            passage.take(streamed(&piece, false)),
            Ok(step(&piece, false))
        );
        assert_eq!(
            passage.take(streamed("next", false)),
            Ok(step("next", false))
        );
    }
    assert_eq!(rest(&passage), Some(&b""[..]));
}

#[test]
fn trailers_end_a_body() {
    let mut passage = passage_with_sent(&["one"]);
    assert!(!passage.awaits_end());
    passage.note_end(b"grpc-status: 0\r\n");
    assert!(passage.awaits_end() && !passage.awaits_trailers_alone());
    assert_eq!(passage.take(streamed("one", false)), Ok(step("one", false)));
    assert!(passage.awaits_trailers_alone());
    let trailers = message(ResponseMessage::ResponseTrailers(
        TrailersResponse::default(),
    ));
    assert_eq!(passage.take(trailers), Ok(Step::Trailers(None)));
    assert_eq!(passage.trailers(), b"grpc-status: 0\r\n");
    assert!(!passage.awaits_end());
}

#[test]
fn a_picker_may_decline_the_body_and_respond_itself() {
    let mode = |header: HeaderSendMode, body: BodySendMode| {
        Some(ProcessingMode {
            response_header_mode: header.into(),
            response_body_mode: body.into(),
        })
    };
    let everything = Interest::HeadAndBody;
    let streamed = BodySendMode::FullDuplexStreamed;
    assert_eq!(everything.narrowed(None), everything);
    let same = everything.narrowed(mode(HeaderSendMode::Default, streamed));
    assert_eq!(same, everything);
    let head_alone = everything.narrowed(mode(HeaderSendMode::Default, BodySendMode::None));
    assert_eq!(head_alone, Interest::Head);
    assert_eq!(
        head_alone.narrowed(mode(HeaderSendMode::Default, streamed)),
        head_alone
    );
    let nothing = everything.narrowed(mode(HeaderSendMode::Skip, streamed));
    assert_eq!(nothing, Interest::Nothing);
    let mut passage = new_passage(everything);
    let declined = ProcessingResponse {
        mode_override: mode(HeaderSendMode::Default, BodySendMode::None),
        ..head()
    };
    let taken = passage.take(declined);
    assert_eq!(taken, Ok(Step::Head(None, BodySource::Endpoint)));
    let immediate = ImmediateResponse::default();
    let taken = passage.take(message(ResponseMessage::ImmediateResponse(
        immediate.clone(),
    )));
    assert_eq!(taken, Ok(Step::Immediate(immediate)));
}
