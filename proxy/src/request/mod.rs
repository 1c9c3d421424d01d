//! The life of a request: all phases in order, each one call, and one `finish` for every outcome.

mod authenticate;
mod authorize;
mod body;
mod error_page;
mod external_auth;
mod finish;
mod hash;
mod head_policies;
mod health_path;
mod limit_rate;
mod local_response;
mod mirror;
mod networks;
mod passwords;
mod pick;
mod prepare;
mod respond;
mod route;
#[cfg(feature = "test-hooks")]
mod test_hooks;

use std::rc::Rc;

use crate::exchange::local_response::reject_for_removed_bind;
use crate::exchange::scratch::Scratch;
use crate::exchange::{Client, ConnectionOutcome, Exchange, Holds, NextStep, Proxy};
use crate::failure::{Failure, FailureKind};
use crate::forward;
use crate::memory::Buffer;
use crate::policy::normalise::Target;
use crate::policy::rate_limit::Moment;

/// Serves the request whose head is in `scratch`.
pub(crate) async fn handle(
    proxy: &Rc<Proxy>,
    client: &Client,
    buffer: &mut Buffer,
    scratch: &mut Scratch,
) -> ConnectionOutcome {
    let Some((snapshot, bind)) = proxy.shard.config.load_for(client.bind) else {
        return ConnectionOutcome::End(reject_for_removed_bind(&proxy.shard, client).await);
    };
    let Scratch {
        received,
        normal,
        work,
    } = scratch;
    let target = normal.normalise(received, &bind);
    let held = (&**bind, &Holds::default());
    let mut exchange = Exchange::begin(proxy, snapshot, held, client, received, buffer, work);
    if proxy.watches.are_armed() {
        exchange.begin_trace(&target);
    }
    let outcome = match target {
        Ok((host, target)) => serve(&mut exchange, host, target).await,
        Err(failure) => Err(exchange.refusal_or(failure)),
    };
    exchange
        .finish(outcome, target.ok().map(|(_, target)| target))
        .await
}

/// Rejects a request whose head is malformed. The connection is closed, since nothing after the head
/// can be trusted; `scratch` has the parts to log.
pub(crate) async fn refuse(
    proxy: &Rc<Proxy>,
    client: &Client,
    buffer: &mut Buffer,
    scratch: &mut Scratch,
    failure: Failure,
) -> NextStep {
    tracing::debug!(client = %client.hop.address(), %failure, "rejected a malformed request head");
    let Some((snapshot, bind)) = proxy.shard.config.load_for(client.bind) else {
        return reject_for_removed_bind(&proxy.shard, client).await;
    };
    let Scratch { received, work, .. } = scratch;
    let held = (&**bind, &Holds::default());
    let mut exchange = Exchange::begin(proxy, snapshot, held, client, received, buffer, work);
    if proxy.watches.are_armed() {
        exchange.begin_trace(&Err(failure));
    }
    let failure = exchange.refusal_or(failure);
    match exchange.finish(Err(failure), None).await {
        ConnectionOutcome::KeepAlive => NextStep::Close,
        ConnectionOutcome::End(next) => next,
    }
}

/// The phases, from top to bottom. `finish` turns an error into a response.
async fn serve<'a>(
    exchange: &mut Exchange<'a>,
    host: &str,
    target: Target<'a>,
) -> Result<ConnectionOutcome, Failure> {
    #[cfg(feature = "test-hooks")]
    {
        test_hooks::stall_if_requested(target.path());
        test_hooks::await_change_if_requested(exchange, target.path());
        test_hooks::delay_if_requested(exchange.shard, target.path());
        test_hooks::skip_time_if_requested(exchange.shard, target.path());
        test_hooks::panic_if_requested(target.path());
        test_hooks::end_shard_if_requested(target.path());
    }
    if exchange.is_health_check(target) {
        // Boxed: few requests are one.
        return Box::pin(exchange.answer_health_check()).await;
    }
    if exchange.shard.should_shed() {
        return Err(FailureKind::Overloaded.into());
    }
    let listener = exchange.select_listener(host);
    exchange.check_head_policies(host, target)?;
    let listener = exchange
        .authorize_by_listener_servers(listener?, host, target)
        .await?;
    let matched = exchange.select_rule(listener, host, target)?;
    if let Some(extras) = matched.rule.extras.as_deref()
        && let Some(outcome) = exchange.meet_extras(extras, &matched, host).await?
    {
        return Ok(outcome);
    }
    exchange.check_networks(&matched)?;
    exchange.limit_rate(&matched, host, Moment::Early)?;
    // A redirect to HTTPS must not ask for credentials first.
    if let Some(redirect) = matched.rule.redirect()
        && let Some(outcome) = exchange.answer_by_filters(redirect, &matched).await?
    {
        return Ok(outcome);
    }
    exchange.authenticate(&matched).await?;
    exchange.authorize(&matched, host)?;
    exchange.limit_rate(&matched, host, Moment::Late)?;
    exchange.authorize_by_rule_servers(&matched).await?;
    if let Some(outcome) = exchange.answer_by_rule(&matched).await? {
        return Ok(outcome);
    }
    let destination = exchange.draw_backend(&matched)?;
    exchange
        .authorize_by_backend_servers(&matched, destination)
        .await?;
    if let Some(outcome) = exchange.answer_by_backend(&matched, destination).await? {
        return Ok(outcome);
    }
    exchange.prepare(&matched, destination)?;
    if let Some(outcome) = exchange.pick(&matched, destination).await? {
        return Ok(outcome);
    }
    exchange.mirror(&matched, destination);
    let outcome = forward::forward(exchange, &matched, destination).await;
    if outcome.is_err() && exchange.picked.is_some() {
        // Boxed: few requests have a picker, and few pickers respond that late.
        return Box::pin(exchange.send_immediate_response(outcome, destination)).await;
    }
    outcome
}
