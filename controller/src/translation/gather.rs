//! Collects changes for a pass.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::pace::Pace;
use super::pending::{Pending, Waited};
use crate::watch;

/// Collects changes until the next pass is due, or for a moment if a quiet namespace has one.
pub(super) async fn gather(
    pace: &Pace,
    is_serving: bool,
    changes: &mut mpsc::Receiver<watch::Change>,
    pending: &mut Pending,
) -> Waited {
    let mut quiet_until = None;
    loop {
        while !pending.is_full()
            && let Ok(change) = changes.try_recv()
        {
            pending.push(change);
        }
        let Some(due) = pace.gather_until() else {
            return Waited::UntilDue;
        };
        let now = Instant::now();
        if is_serving && quiet_until.is_none() && pending.has_quiet(now) {
            quiet_until = Some(now + TOGETHER);
        }
        if quiet_until.is_some_and(|until| until <= now) {
            return Waited::LessForQuiet;
        }
        let until = quiet_until.map_or(due, |until| due.min(until));
        tokio::select! {
            () = sleep_until(until) => {}
            change = changes.recv(), if !pending.is_full() => match change {
                Some(change) => pending.push(change),
                None => sleep_until(until).await,
            },
        }
    }
}

/// How long changes of quiet namespaces are collected while others keep translation busy, so that a route
/// and its policy are often published together, and many such namespaces do not mean a pass for each change.
const TOGETHER: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use xds::model::ObjectName;

    use translate::ObjectKind;

    use super::*;
    use crate::watch::{Change, ChangeKind};

    fn change(namespace: &str, name: &str) -> Change {
        let kind = ObjectKind::Gateway;
        Change {
            kind,
            received: Instant::now(),
            what: ChangeKind::Delete(ObjectName::new(namespace, name)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_is_translated_with_its_route_or_as_soon_while_others_are_busy() {
        let (sender, mut changes) = mpsc::channel(10_000);
        let (mut pace, mut pending) = (Pace::default(), Pending::default());
        for number in 0..5_000 {
            pending.push(change("busy", &number.to_string()));
        }
        pending.take(Instant::now(), Waited::UntilDue, |_| false);
        pace.passed(Instant::now(), Duration::from_millis(30));
        let started = Instant::now();
        let sending = async {
            for (wait, name) in [(0, "route"), (3, "policy"), (17, "late")] {
                tokio::time::sleep(Duration::from_millis(wait)).await;
                sender.send(change("app", name)).await.expect("it receives");
            }
        };
        let taking = async {
            let mut taken = Vec::new();
            while taken.iter().map(|(_, count)| count).sum::<usize>() < 3 {
                let waited = gather(&pace, true, &mut changes, &mut pending).await;
                let count = pending.take(Instant::now(), waited, |_| false).len();
                taken.push((started.elapsed().as_millis(), count));
            }
            taken
        };
        let ((), taken) = tokio::join!(sending, taking);
        assert_eq!(taken, [(5, 2), (25, 1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_when_translation_is_idle_and_busy_namespaces_until_they_are_due() {
        let (sender, mut changes) = mpsc::channel(10_000);
        let (mut pace, mut pending) = (Pace::default(), Pending::default());
        let started = Instant::now();
        for number in 0..5_000 {
            let change = change("busy", &number.to_string());
            sender.send(change).await.expect("it receives");
        }
        let waited = gather(&pace, true, &mut changes, &mut pending).await;
        assert_eq!(waited, Waited::UntilDue);
        assert_eq!(started.elapsed(), Duration::ZERO);
        pending.take(Instant::now(), waited, |_| false);
        pace.passed(Instant::now(), Duration::from_millis(30));
        let waited = gather(&pace, true, &mut changes, &mut pending).await;
        assert_eq!(waited, Waited::UntilDue);
        assert_eq!(started.elapsed(), Duration::from_millis(90));
    }
}
