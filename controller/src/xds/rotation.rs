//! Rotates certificate authorities without a proxy that trusts neither: the next one is announced
//! in the bundle, and signs ten minutes later. Pure; time is an argument.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::authority::Authority;

/// The authorities of a server.
#[derive(Default)]
pub(super) struct Rotation {
    signing: Option<Arc<Authority>>,
    next: Option<NextAuthority>,
    /// Former authorities, and when they are removed from the bundle.
    retired: Vec<(String, Instant)>,
}

struct NextAuthority {
    authority: Arc<Authority>,
    /// When it was first seen in the bundle.
    announced: Option<Instant>,
}

impl Rotation {
    /// Sets the desired authority. The first one signs immediately: a server that has just started
    /// has no other key.
    pub(super) fn set_desired(&mut self, authority: Arc<Authority>) {
        match &self.signing {
            None => self.signing = Some(authority),
            Some(signing) if signing.pem == authority.pem => self.next = None,
            Some(_) if self.is_next(&authority) => {}
            Some(_) => {
                self.next = Some(NextAuthority {
                    authority,
                    announced: None,
                });
            }
        }
    }

    fn is_next(&self, authority: &Authority) -> bool {
        let next = self.next.as_ref();
        next.is_some_and(|next| next.authority.pem == authority.pem)
    }

    /// Sets the certificates in the published bundle.
    pub(super) fn set_published(&mut self, bundle: &[String], now: Instant) {
        if let Some(next) = &mut self.next
            && bundle.contains(&next.authority.pem)
        {
            next.announced.get_or_insert(now);
        }
        for pem in bundle {
            let is_known = self.bundle(now).contains(pem);
            if !is_known && !self.retired.iter().any(|(it, _)| it == pem) {
                // Of an earlier process: another replica may still use it.
                self.retired.push((pem.clone(), now + RETENTION));
            }
        }
    }

    /// Switches to the next one, if it is time.
    pub(super) fn advance(&mut self, now: Instant) {
        let is_due =
            |next: &mut NextAuthority| next.announced.is_some_and(|at| at + ANNOUNCED <= now);
        if let Some(next) = self.next.take_if(is_due)
            && let Some(before) = self.signing.replace(next.authority)
        {
            self.retired.push((before.pem.clone(), now + RETENTION));
        }
    }

    /// The authority that signs.
    pub(super) fn signing(&self) -> Option<&Arc<Authority>> {
        self.signing.as_ref()
    }

    pub(super) fn bundle(&self, now: Instant) -> Vec<String> {
        let signing = self.signing.iter().map(|it| it.pem.clone());
        let next = self.next.iter().map(|next| next.authority.pem.clone());
        let mut bundle: Vec<String> = signing.chain(next).collect();
        for (pem, until) in &self.retired {
            if now < *until && !bundle.contains(pem) {
                bundle.push(pem.clone());
            }
        }
        bundle
    }
}

/// Time in the bundle before an authority signs. The kubelet updates a ConfigMap in pods within two
/// minutes.
const ANNOUNCED: Duration = Duration::from_mins(10);

/// Time in the bundle after an authority was replaced: other replicas follow within a minute.
const RETENTION: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use super::super::authority::tests::authority;
    use super::*;

    fn pems(authorities: &[&Arc<Authority>]) -> Vec<String> {
        authorities.iter().map(|it| it.pem.clone()).collect()
    }

    fn signing(rotation: &Rotation) -> &str {
        &rotation.signing().expect("one signs").pem
    }

    #[test]
    fn the_next_authority_signs_ten_minutes_after_publication() {
        let (old, new) = (Arc::new(authority()), Arc::new(authority()));
        let mut rotation = Rotation::default();
        let now = Instant::now();
        rotation.set_desired(Arc::clone(&old));
        assert_eq!(rotation.bundle(now), pems(&[&old]));
        rotation.set_desired(Arc::clone(&new));
        let both = [old.pem.clone(), new.pem.clone()];
        assert_eq!(rotation.bundle(now), both);

        // The time does not count before the bundle contains it.
        let late = now + 10 * ANNOUNCED;
        rotation.set_published(std::slice::from_ref(&old.pem), late);
        rotation.advance(late);
        assert_eq!(signing(&rotation), old.pem);

        rotation.set_published(&both, late);
        rotation.set_desired(Arc::clone(&new));
        rotation.set_published(&both, late + ANNOUNCED / 2);
        rotation.advance(late + ANNOUNCED * 9 / 10);
        assert_eq!(signing(&rotation), old.pem);
        rotation.advance(late + ANNOUNCED);
        assert_eq!(signing(&rotation), new.pem);

        let after = late + ANNOUNCED;
        assert_eq!(rotation.bundle(after), [new.pem.clone(), old.pem.clone()]);
        assert_eq!(rotation.bundle(after + RETENTION), pems(&[&new]));
        rotation.set_published(&both, after + RETENTION);
        assert_eq!(
            rotation.bundle(after + RETENTION),
            pems(&[&new]),
            "a retired authority is not published again"
        );
    }

    #[test]
    fn a_rotation_can_be_reverted() {
        let (old, new) = (Arc::new(authority()), Arc::new(authority()));
        let mut rotation = Rotation::default();
        let now = Instant::now();
        rotation.set_desired(Arc::clone(&old));
        rotation.set_desired(Arc::clone(&new));
        rotation.set_published(&rotation.bundle(now), now);
        rotation.set_desired(Arc::clone(&old));
        rotation.advance(now + 2 * ANNOUNCED);
        assert_eq!(signing(&rotation), old.pem);
    }

    #[test]
    fn authorities_of_other_replicas_stay_trusted_after_a_restart() {
        let (old, new) = (authority(), Arc::new(authority()));
        let mut rotation = Rotation::default();
        let now = Instant::now();
        rotation.set_desired(Arc::clone(&new));
        rotation.set_published(&[old.pem.clone(), new.pem.clone()], now);
        assert_eq!(rotation.bundle(now), [new.pem.clone(), old.pem.clone()]);
        assert_eq!(rotation.bundle(now + RETENTION), pems(&[&new]));
    }
}
