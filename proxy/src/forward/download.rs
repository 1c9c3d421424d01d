//! The response on its way to the client.

use crate::downstream::connection::Next;
use crate::failure::{Failure, FailureKind};
use crate::http::h1::body::BodyDecoder;
use crate::http::h1::encode::{DownstreamResponse, Persist};
use crate::http::h1::{Asked, HeadLimits, HeadScan, Progress, parse_response};
use crate::http::head::{Framing, ResponseHead, Version};
use crate::limits::{INTERIM_RESPONSES, WHEEL_TICK};
use crate::net::Buffer;
use crate::policy::cors::Cors;
use crate::relay::{Moved, Outward, Reads, Relay, RelayError, Side};
use crate::request::{After, Record};
use crate::shard::Shard;
use crate::shard::deadline::Expiry;
use crate::upstream::pool::Connection;
use crate::upstream::retry::Replay;

use super::attempt::Attempt;
use super::tries::Tries;

/// What came of a response.
pub(crate) enum Responded {
    /// The client has all of it.
    Whole {
        /// Whether the connection to the endpoint can be used again.
        reusable: bool,
        after: After,
    },
    /// Both sides speak another protocol from here on.
    Switched,
}

/// A response that is waited for.
pub(crate) struct Download<'a, 't> {
    pub(super) attempt: &'a Attempt<'a>,
    pub(super) connection: &'a Connection,
    /// What was read from the endpoint.
    pub(super) buffer: &'a mut Buffer,
    pub(super) tries: &'a mut Tries<'t>,
    /// Interim responses that came.
    pub(super) interims: u32,
}

/// What a response needs of its exchange, apart from what the request's body needs.
pub(crate) struct ResponseSide<'e, 'x> {
    pub(crate) client: Side<'e>,
    pub(crate) version: Version,
    pub(crate) asked: Asked,
    pub(crate) limits: HeadLimits,
    /// Whether the client's connection may live on.
    pub(crate) persist: Persist,
    pub(crate) response: &'e mut ResponseHead,
    pub(crate) decoder: &'e mut BodyDecoder,
    pub(crate) lines: &'e mut Vec<u8>,
    pub(crate) out: &'e mut Vec<u8>,
    pub(crate) record: &'e mut Record<'x>,
    /// The request's Origin, for CORS.
    pub(crate) origin: Option<&'e [u8]>,
}

impl Download<'_, '_> {
    /// Starts the time for the response's head.
    pub(super) fn expect_head(&self) {
        self.connection
            .deadline
            .arm(self.attempt.head_timeout(), Expiry::Disconnect);
    }

    /// Reads up to the end of the final response's head, passing interim ones on. Its length: it
    /// stays at the front of the buffer.
    pub(super) async fn head(&mut self, side: &mut ResponseSide<'_, '_>) -> Result<usize, Failure> {
        let mut scan = HeadScan::default();
        loop {
            if !self.buffer.is_empty() {
                let bytes = self.buffer.filled();
                match parse_response(bytes, side.asked, &side.limits, &mut scan, side.response)? {
                    Progress::Complete { len } if side.response.is_interim() => {
                        self.pass_on_interim(len, side).await?;
                        continue;
                    }
                    Progress::Complete { len } => return Ok(len),
                    Progress::Partial => {}
                }
            }
            self.buffer.make_room();
            let read = self.connection.stream.read(self.buffer).await;
            if self.connection.deadline.expired() {
                return Err(FailureKind::UpstreamTimeout.into());
            }
            match read {
                // Nothing came: perhaps the connection was closed before it saw the request.
                Ok(0) if self.is_silent() => return Err(FailureKind::UpstreamClosed.into()),
                Err(_) if self.is_silent() => return Err(FailureKind::UpstreamReset.into()),
                Ok(0) | Err(_) => {
                    return Err(Failure::because(
                        FailureKind::UpstreamGarbage,
                        "head cut short",
                    ));
                }
                Ok(_) => {}
            }
        }
    }

    fn is_silent(&self) -> bool {
        self.buffer.is_empty() && self.interims == 0
    }

    /// RFC 9110 section 15.2: interim responses are passed on, but not to HTTP/1.0.
    async fn pass_on_interim(
        &mut self,
        length: usize,
        side: &mut ResponseSide<'_, '_>,
    ) -> Result<(), Failure> {
        self.interims += 1;
        if self.interims > INTERIM_RESPONSES {
            return Err(Failure::because(
                FailureKind::UpstreamGarbage,
                "too many interim responses",
            ));
        }
        // 100 is between us and the endpoint: the client was told to go on by us, if at all.
        if side.version == Version::Http11 && side.response.status != 100 {
            let edits = self.attempt.response_edits();
            DownstreamResponse {
                head: side.response,
                bytes: self.buffer.filled(),
                client: side.version,
                persist: Persist::Keep,
                append: b"",
            }
            .encode(side.out, |_, name| {
                edits.is_some_and(|edits| edits.drops(name))
            });
            side.client.arm(Expiry::Disconnect);
            let sent = side.client.stream.write_vec(side.out).await;
            side.out.clear();
            // Back to looking whether the client is still there.
            let other = self.connection.stream.fd();
            let watch = Expiry::Watch {
                other,
                again: WHEEL_TICK,
            };
            side.client.deadline.arm(Some(WHEEL_TICK), watch);
            sent.map_err(|_| FailureKind::ClientGone)?;
        }
        self.buffer.consume(length);
        Ok(())
    }

    /// Notes how the endpoint did. Whether the response is dropped for another try.
    pub(super) fn is_dropped(
        &mut self,
        side: &mut ResponseSide<'_, '_>,
        shard: &Shard,
        replay: Replay,
    ) -> bool {
        let status = side.response.status;
        self.attempt.judge_answer(shard, status, side.record);
        self.tries.retries_status(status, replay)
    }

    /// Sends the response whose head has `length` bytes. `uploaded` tells whether the request was
    /// sent to its end by now: a connection with half a request on it cannot be used again.
    pub(super) async fn respond(
        &mut self,
        length: usize,
        side: &mut ResponseSide<'_, '_>,
        shard: &Shard,
        uploaded: impl Fn() -> bool,
    ) -> Result<Responded, Failure> {
        let framing = side.response.framing;
        let resent = framing.resent_to(side.version);
        // An answer that does not wait for the request's end is often an error, and the rest of
        // the request not worth reading.
        if (!uploaded() && side.response.status >= 300)
            || resent == Framing::UntilClose
            || shard.draining.get()
        {
            side.persist = Persist::Close;
        }
        self.encode_head(length, side);
        self.buffer.consume(length);
        side.decoder.reset(framing);
        // Nothing has been sent yet, so a body that is broken from the start can still be a 502.
        let first = side
            .decoder
            .decode(self.buffer.filled_mut())
            .map_err(|error| Failure::because(FailureKind::UpstreamGarbage, error.reason()))?;
        side.record.status = side.response.status;
        side.record.answered = true;
        let switched = side.response.status == 101;
        let relay = Relay {
            from: self.attempt.download_side(self.connection),
            to: side.client,
            outward: if resent == Framing::Chunked {
                Outward::Chunked
            } else {
                Outward::Plain
            },
            limit: None,
            min_rate: 0,
            reads: Reads::WhileWanted,
        };
        let mut moved = Moved::default();
        let relayed = relay
            .run(
                side.out,
                self.buffer,
                side.decoder,
                first,
                &mut moved,
                &mut (),
            )
            .await;
        side.record.bytes_out = moved.payload;
        relayed.map_err(RelayError::of_download)?;
        if switched {
            return Ok(Responded::Switched);
        }
        let reusable = side.response.keep_alive && framing != Framing::UntilClose && uploaded();
        let after = match side.persist {
            Persist::Keep if uploaded() => After::KeepAlive,
            Persist::Close if uploaded() => After::close(side.client.stream),
            // More of the request may come, and its arrival must not reset what was answered.
            _ => After::End(Next::Linger),
        };
        let reusable = reusable && !shard.draining.get();
        Ok(Responded::Whole { reusable, after })
    }

    fn encode_head(&self, length: usize, side: &mut ResponseSide<'_, '_>) {
        let bytes = self.buffer.filled().get(..length).unwrap_or_default();
        let (edits, cors) = (self.attempt.response_edits(), self.attempt.cors());
        if let Some(cors) = cors {
            cors.write_lines(
                side.origin,
                Some((&side.response.fields, bytes)),
                side.lines,
            );
        }
        if let Some(edits) = edits {
            side.lines.extend_from_slice(edits.appended());
        }
        side.out.clear();
        DownstreamResponse {
            head: side.response,
            bytes,
            client: side.version,
            persist: side.persist,
            append: side.lines,
        }
        .encode(side.out, |_, name| {
            edits.is_some_and(|edits| edits.drops(name)) || (cors.is_some() && Cors::drops(name))
        });
    }
}
