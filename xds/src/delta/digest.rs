//! The digest of what a proxy holds of a type. A proxy that reconnects reports it in the place of all names and
//! versions.

use ring::digest::{Context, SHA256};

use super::encoded::Version;

/// The first 128 bits of the SHA-256 of names and versions, in the order of the names: different resources have
/// different digests, also if somebody chooses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest([u8; 16]);

impl Digest {
    /// Of names with their versions. What a proxy could not apply has no version there, so that its digest is not
    /// the controller's, where everything has one.
    pub(super) fn of<'a>(held: impl Iterator<Item = (&'a str, Option<Version>)>) -> Self {
        let mut context = Context::new(&SHA256);
        for (name, version) in held {
            // With its length, so that no name can be mistaken for a name with a version.
            context.update(&name.len().to_be_bytes());
            context.update(name.as_bytes());
            match version {
                Some(version) => {
                    context.update(&[1]);
                    context.update(&version.bytes());
                }
                None => context.update(&[0]),
            }
        }
        let mut digest = [0; 16];
        for (to, from) in digest.iter_mut().zip(context.finish().as_ref()) {
            *to = *from;
        }
        Self(digest)
    }

    /// From its form on the wire; `None` if it is none of this release.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its form on the wire.
    pub(super) fn bytes(self) -> [u8; 16] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_depends_on_every_name_and_version() {
        let (one, two) = (Version::of(b"one"), Version::of(b"two"));
        let digest = |held: &[(&str, Option<Version>)]| Digest::of(held.iter().copied());
        let held = digest(&[("a", Some(one)), ("b", Some(two))]);
        assert_eq!(held, digest(&[("a", Some(one)), ("b", Some(two))]));
        for other in [
            digest(&[]),
            digest(&[("a", Some(one))]),
            digest(&[("a", Some(one)), ("c", Some(two))]),
            digest(&[("a", Some(two)), ("b", Some(one))]),
            digest(&[("a", Some(one)), ("b", None)]),
            digest(&[("a", Some(one)), ("b", Some(two)), ("c", None)]),
        ] {
            assert_ne!(held, other);
        }
    }

    #[test]
    fn its_form_on_the_wire_has_one_length() {
        let digest = Digest::of([("a", None)].into_iter());
        assert_eq!(Digest::parse(&digest.bytes()), Some(digest));
        for length in [0, 15, 17] {
            assert_eq!(Digest::parse(&vec![0; length]), None);
        }
    }
}
