//! The password of a request: known to be right, or checked off the shard while the request waits.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use crate::exchange::{Exchange, Matched};
use crate::failure::Failure;
use crate::limits::{PASSWORD_POLL, PASSWORD_POLL_MAX, PASSWORD_WAIT};
use crate::passwords::{Check, Verdict};
use crate::policy::authentication::Authentication;
use crate::policy::basic_auth::{PasswordHolder, PasswordRefusal, PasswordUse, PresentedPassword};

use super::authenticate::log_refusal;

impl<'a> Exchange<'a> {
    /// The user whose password the request has, if it has any.
    pub(super) async fn authenticate_by_password(
        &self,
        credentials: &'a Authentication,
        (matched, policy): (&Matched<'a>, &str),
    ) -> Result<Option<PasswordHolder<'a>>, Failure> {
        let Some(basic_auth) = credentials.basic_auth.as_deref() else {
            return Ok(None);
        };
        let result = match basic_auth.find(self.token_sources(matched.target)) {
            Err(refusal) => Err(refusal),
            Ok(None) => Ok((None, PasswordUse::None)),
            Ok(Some(presented)) => match presented.known(Instant::now()) {
                Some(holder) => Ok((Some(holder), PasswordUse::Known(holder.user()))),
                // Boxed: few requests ever wait here.
                None => Box::pin(self.check_password(&presented, matched.rule.namespace()))
                    .await
                    .map(|holder| (Some(holder), PasswordUse::Checked(holder.user()))),
            },
        };
        let used = result.as_ref().map(|(_, used)| *used).map_err(|it| *it);
        self.shard.counters.passwords.count(used);
        if let Some(trace) = &self.record.trace {
            trace.password(policy, used);
        }
        if let Err(refusal) = used {
            log_refusal(matched, policy, refusal.reason());
        }
        Ok(result?.0)
    }

    async fn check_password(
        &self,
        presented: &PresentedPassword<'a>,
        namespace: &str,
    ) -> Result<PasswordHolder<'a>, PasswordRefusal> {
        let client = customer(self.client_address());
        let pair = presented.wrong_pair(client);
        let is_wrong = { self.proxy.wrong_passwords.borrow() }.has(&pair, Instant::now());
        if is_wrong {
            return Err(PasswordRefusal::WrongBefore);
        }
        let place = self.proxy.password_waits.enter(namespace, client);
        let _place = place.ok_or(PasswordRefusal::Unchecked)?;
        match verdict(&presented.submit(namespace, client)).await {
            Verdict::Right => Ok(presented.holder()),
            Verdict::Wrong => {
                let mut wrong = self.proxy.wrong_passwords.borrow_mut();
                wrong.record(pair, Instant::now());
                Err(presented.refusal())
            }
            Verdict::Unchecked => Err(PasswordRefusal::Unchecked),
        }
    }
}

/// The result of a check. One that takes too long counts as none.
async fn verdict(check: &Check) -> Verdict {
    let until = Instant::now().checked_add(PASSWORD_WAIT);
    let mut pause = PASSWORD_POLL;
    loop {
        monoio::time::sleep(pause).await;
        if let Some(verdict) = check.verdict() {
            return verdict;
        }
        if until.is_none_or(|until| Instant::now() >= until) {
            return Verdict::Unchecked;
        }
        pause = pause.saturating_mul(2).min(PASSWORD_POLL_MAX);
    }
}

/// The address that one customer of a network has: of IPv6 its /64.
fn customer(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::customer;

    #[test]
    fn clients_are_told_apart_by_address_and_in_ipv6_by_network() {
        let of = |text: &str| customer(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:0:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
