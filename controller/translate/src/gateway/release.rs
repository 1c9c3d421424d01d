//! Releases of Gateway API, from the annotations of the installed CRDs.

use std::fmt;

/// A version of Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub(crate) major: u16,
    pub(crate) minor: u16,
    pub(crate) patch: u16,
}

/// Release channel, which determines the fields of the CRDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The standard channel, with stable fields only.
    Standard,
    /// The experimental channel, with all fields.
    Experimental,
}

/// Version and channel of the installed Gateway API CRDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Version of the release.
    pub version: Version,
    /// Channel of the release.
    pub channel: Channel,
}

/// The installed release and channel of Gateway API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Installed {
    /// The release of the definitions, if they contain it.
    pub release: Option<Release>,
    /// Whether the API server has ClusterTrustBundle objects.
    pub trust_bundles: bool,
}

impl Version {
    pub(crate) const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Parses a version such as `v1.7.0`; a suffix after a hyphen is ignored.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v')?;
        let numbers = text.split_once('-').map_or(text, |(numbers, _)| numbers);
        let mut parts = numbers.split('.').map(|part| part.parse().ok());
        let version = Self::new(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(version)
    }
}

impl Release {
    /// The release in the annotations of a CRD.
    #[must_use]
    pub fn of_annotations<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let version = Version::parse(annotation("gateway.networking.k8s.io/bundle-version")?)?;
        let channel = match annotation("gateway.networking.k8s.io/channel") {
            Some("experimental") => Channel::Experimental,
            _ => Channel::Standard,
        };
        Some(Self { version, channel })
    }

    /// Whether this version, ignoring the patch number, is tested.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        SUPPORTED.contains(&(self.version.major, self.version.minor))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Major and minor numbers of the tested versions.
const SUPPORTED: [(u16, u16); 2] = [(1, 6), (1, 7)];
/// The same, in words.
pub(crate) const SUPPORTED_TEXT: &str = "v1.6 and v1.7";
/// Assumed for features if the installed release is unknown.
pub(crate) const NEWEST: Release = Release {
    version: Version::new(1, 7, 0),
    channel: Channel::Standard,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_and_ordered() {
        let version = Version::parse("v1.6.3").expect("a version");
        assert_eq!(version.to_string(), "v1.6.3");
        assert!(version < Version::parse("v1.7.0-rc.1").expect("a version"));
        for text in ["", "1.7.0", "v1.7", "v1.7.0.1", "v1.x.0", "dev"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_definition_without_annotations_has_no_known_release() {
        assert_eq!(Release::of_annotations(|_| None), None);
    }
}
