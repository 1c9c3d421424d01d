//! The life of a request: every phase in its order, each one call, and one `finish` for every end.

mod answer;
mod authenticate;
mod finish;
pub(crate) mod mirror;
mod prepare;
mod record;
mod route;
pub(crate) mod scratch;
#[cfg(feature = "test-hooks")]
mod test_hooks;

use std::rc::Rc;

use crate::config::{Bind, Snapshot};
use crate::downstream::answer::turn_away;
use crate::downstream::connection::{Client, Next};
use crate::failure::{Failure, FailureKind};
use crate::forward::{self, Pinned};
use crate::net::Buffer;
use crate::policy::forwarded::Belief;
use crate::policy::jwt::Passed;
use crate::policy::normalise::Target;
use crate::shard::Shard;

use self::mirror::Feed;
pub(crate) use self::record::Record;
pub(crate) use self::route::{Drawn, Matched};
use self::scratch::{Received, Scratch, Work};

/// A request under way.
pub(crate) struct Exchange<'a> {
    pub(crate) shard: &'a Rc<Shard>,
    /// The configuration when the request came; it stays this request's to the end.
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) bind: &'a Bind,
    pub(crate) client: &'a Client,
    /// The request's head.
    pub(crate) received: &'a Received,
    /// Whether what it says of its way to us is believed.
    pub(crate) belief: Belief,
    /// What was read from the client: the request's body, and requests behind it.
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) work: &'a mut Work,
    /// Copies of the request under way.
    pub(crate) mirrors: Vec<Feed>,
    /// The living session that it belongs to.
    pub(crate) pinned: Option<Pinned<'a>>,
    /// Who sent it, where the rule asks for that.
    pub(crate) passed: Option<Passed<'a>>,
    /// What is known of the request by now, for counters and the log.
    pub(crate) record: Record<'a>,
}

/// What becomes of the client's connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request may come.
    KeepAlive,
    /// It ends.
    End(Next),
}

/// Serves the request whose head is in `scratch`.
pub(crate) async fn handle(
    shard: &Rc<Shard>,
    client: &Client,
    buffer: &mut Buffer,
    scratch: &mut Scratch,
) -> After {
    let snapshot = shard.config.load();
    let Some(bind) = snapshot.bind(client.bind) else {
        return After::End(turn_away(shard, client).await);
    };
    let Scratch {
        received,
        normal,
        work,
    } = scratch;
    let target = normal.take_in(received, bind);
    let mut exchange = Exchange::begin(shard, &snapshot, bind, client, received, buffer, work);
    if shard.watches.are_armed() {
        exchange.begin_trace(&target);
    }
    let outcome = match target {
        Ok((host, target)) => serve(&mut exchange, host, target).await,
        Err(failure) => Err(failure),
    };
    exchange
        .finish(outcome, target.ok().map(|(_, target)| target))
        .await
}

/// Ends a request whose head is not to be believed, so that nothing behind it can be either; `scratch`
/// has what can be told of it.
pub(crate) async fn refuse(
    shard: &Rc<Shard>,
    client: &Client,
    buffer: &mut Buffer,
    scratch: &mut Scratch,
    failure: Failure,
) -> Next {
    tracing::debug!(client = %client.hop.address(), %failure, "refused a request's head");
    let snapshot = shard.config.load();
    let Some(bind) = snapshot.bind(client.bind) else {
        return turn_away(shard, client).await;
    };
    let Scratch { received, work, .. } = scratch;
    let mut exchange = Exchange::begin(shard, &snapshot, bind, client, received, buffer, work);
    if shard.watches.are_armed() {
        exchange.begin_trace(&Err(failure));
    }
    match exchange.finish(Err(failure), None).await {
        After::KeepAlive => Next::Close,
        After::End(next) => next,
    }
}

/// The phases, top to bottom. What cannot be done for this request is a failure, which `finish`
/// turns into an answer.
async fn serve<'a>(
    exchange: &mut Exchange<'a>,
    host: &str,
    target: Target<'a>,
) -> Result<After, Failure> {
    #[cfg(feature = "test-hooks")]
    {
        test_hooks::stall_if_asked(target.path());
        test_hooks::be_late_if_asked(exchange.shard, target.path());
        test_hooks::skip_time_if_asked(exchange.shard, target.path());
        test_hooks::panic_if_asked(target.path());
        test_hooks::end_shard_if_asked(target.path());
    }
    if exchange.shard.sheds() {
        return Err(FailureKind::Overloaded.into());
    }
    let listener = exchange.select_listener(host)?;
    let matched = exchange.select_rule(listener, host, target)?;
    exchange.authenticate(&matched)?;
    if let Some(after) = exchange.answer_by_rule(&matched).await? {
        return Ok(after);
    }
    let drawn = exchange.draw_backend(&matched)?;
    if let Some(after) = exchange.answer_by_backend(&matched, drawn).await? {
        return Ok(after);
    }
    exchange.prepare(&matched, drawn);
    exchange.mirror(&matched, drawn);
    forward::forward(exchange, &matched, drawn).await
}
