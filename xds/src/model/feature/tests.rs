//! Names of features, what a proxy states of them, and what needs them.

use super::*;
use crate::model::{JwtExpiry, JwtForward, JwtKeys, JwtMode};

#[test]
fn a_feature_has_a_name_of_its_own() {
    for feature in Feature::ALL {
        assert_eq!(Feature::of_name(feature.name()), Some(*feature));
    }
    assert_eq!(Feature::of_name("of-a-later-release"), None);
    assert!(Feature::ALL.len() < 32, "a set has a bit for each");
}

/// A release has as many features as those before it, and its own.
#[test]
fn features_of_other_releases_are_ignored() {
    let (first, both) = (&Feature::ALL[..1], &Feature::ALL[..2]);
    let names = |features: &[Feature]| -> Vec<String> {
        features.iter().map(|it| it.name().to_owned()).collect()
    };
    let set = |features: &[Feature]| features.iter().copied().collect::<Features>();
    assert_eq!(Features::stated_of(both, &names(both)), set(both));
    assert_eq!(Features::stated_of(both, &names(first)), set(first));
    assert_eq!(Features::stated_of(first, &names(both)), set(first));
    assert_eq!(
        Features::stated_of(both, &names(&both[1..])),
        Features::NONE
    );
    assert_eq!(Features::stated_of(&[], &names(both)), Features::NONE);
}

/// Proxies of the release before accept tokens for 60 s after their expiry.
#[test]
fn a_shorter_clock_skew_needs_a_feature() {
    let needs = |skew: Option<u64>| {
        let provider = JwtProvider {
            name: "idp".to_owned(),
            issuer: "https://idp.test".to_owned(),
            audiences: Vec::new(),
            keys: JwtKeys::Inline(String::new()),
            from: Vec::new(),
            forward: JwtForward::Strip,
            claims_to_headers: Vec::new(),
            clock_skew: skew.map(Duration::from_secs),
            expiry: JwtExpiry::Required,
        };
        let spec = PolicySpec {
            jwt: Some(JwtPolicy {
                mode: JwtMode::Strict,
                realm: None,
                providers: vec![provider],
            }),
            ..PolicySpec::default()
        };
        spec.needs()
    };
    for skew in [None, Some(60), Some(120)] {
        assert_eq!(needs(skew), Features::NONE, "{skew:?}");
    }
    for skew in [0, 30, 59] {
        let expected: Features = [Feature::ClockSkew].into_iter().collect();
        assert_eq!(needs(Some(skew)), expected, "{skew}");
    }
}

#[test]
fn stated_features_end_with_the_first_that_is_missing() {
    let mut names = Features::all().names();
    names.push("of-a-later-release".to_owned());
    assert_eq!(Features::stated(&names), Features::all());
    names.remove(0);
    assert_eq!(Features::stated(&names), Features::NONE);
    assert_eq!(Features::stated(&[]), Features::NONE);
    assert!(Features::all().contains_all(Features::NONE));
    assert!(!Features::NONE.contains_all(Features::all()));
}
