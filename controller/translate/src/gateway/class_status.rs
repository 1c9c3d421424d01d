//! The status of a GatewayClass.

use serde::Serialize;

use super::features;
use super::release::{Installed, Release, SUPPORTED_TEXT};
use crate::status::problem::Problem;
use crate::status::{Condition, ConditionStatus, ConditionType, Conditions, Reason};

/// The status of a GatewayClass of this controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassStatus {
    /// Conditions of the class.
    pub conditions: Vec<Condition>,
    /// Supported features of Gateway API, by name.
    pub supported_features: Vec<SupportedFeature>,
}

/// A feature of Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SupportedFeature {
    /// Name in the installed release.
    pub name: &'static str,
}

impl GatewayClassStatus {
    /// Of a class in this generation, which is accepted.
    #[must_use]
    pub fn accepted(generation: i64, installed: Installed) -> Self {
        let text = "Gateways of this class are served";
        let conditions = Conditions::of(generation);
        let conditions = conditions.normal(ConditionType::Accepted, Reason::Accepted, text);
        Self::with(conditions, installed)
    }

    /// The status of a class whose parameters are invalid, with advice.
    #[must_use]
    pub fn refused(generation: i64, why: String, installed: Installed) -> Self {
        let problem = Problem::new(Reason::InvalidParameters, "", why);
        let conditions = Conditions::of(generation);
        let conditions = conditions.abnormal(ConditionType::Accepted, &[problem]);
        Self::with(conditions, installed)
    }

    /// The same, with advice about settings that have no effect in the message of `Accepted`.
    #[must_use]
    pub fn with_advice(mut self, advice: &str) -> Self {
        let accepted = self.conditions.iter_mut();
        for condition in accepted.filter(|it| it.kind == ConditionType::Accepted) {
            condition.message = format!("{}; {advice}", condition.message).into();
        }
        self
    }

    fn with(conditions: Conditions, installed: Installed) -> Self {
        let release = installed.release;
        let (status, reason) = match release {
            Some(release) if release.is_supported() => {
                (ConditionStatus::True, Reason::SupportedVersion)
            }
            _ => (ConditionStatus::False, Reason::UnsupportedVersion),
        };
        let message = supported_version(release).into();
        let conditions = conditions.with(
            ConditionType::SupportedVersion,
            status,
            reason,
            message,
            None,
        );
        let features = features::of(installed);
        Self {
            conditions: conditions.done(),
            supported_features: features.map(|name| SupportedFeature { name }).collect(),
        }
    }
}

fn supported_version(release: Option<Release>) -> String {
    match release {
        Some(release) if release.is_supported() => {
            format!("the CRDs of Gateway API {} are installed", release.version)
        }
        Some(release) => format!(
            "the installed CRDs of Gateway API {} are not tested with this controller: install those of {SUPPORTED_TEXT}",
            release.version
        ),
        None => format!(
            "the installed version of Gateway API is unknown: the CRD of GatewayClass has no valid annotation gateway.networking.k8s.io/bundle-version, or cannot be read; install the CRDs of {SUPPORTED_TEXT}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::gateway::release::{Channel, Version};

    fn status(release: Option<&str>) -> Value {
        let release = release.map(|version| Release {
            version: Version::parse(version).expect("a version"),
            channel: Channel::Standard,
        });
        let installed = Installed {
            release,
            trust_bundles: false,
        };
        serde_json::to_value(GatewayClassStatus::accepted(3, installed)).expect("JSON")
    }

    #[test]
    fn an_untested_release_is_accepted_and_reported_as_untested() {
        let status = status(Some("v1.99.0"));
        let [accepted, supported] = [0, 1].map(|at| status["conditions"][at].clone());
        assert_eq!(
            (&accepted["type"], &accepted["status"]),
            (&"Accepted".into(), &"True".into())
        );
        assert_eq!(supported["status"], "False");
        assert_eq!(supported["reason"], "UnsupportedVersion");
        let message = supported["message"].as_str().expect("a message");
        assert!(
            message.contains("v1.99.0") && message.contains("v1.7"),
            "{message}"
        );
    }

    #[test]
    fn advice_is_in_the_message() {
        let installed = Installed {
            release: None,
            trust_bundles: false,
        };
        let status = GatewayClassStatus::accepted(3, installed).with_advice("mind this");
        let status = serde_json::to_value(status).expect("JSON");
        let message = "Gateways of this class are served; mind this";
        assert_eq!(status["conditions"][0]["message"], message);
        assert_eq!(status["conditions"][0]["status"], "True");
    }

    #[test]
    fn the_release_is_in_the_status() {
        let status = status(Some("v1.7.0"));
        assert_eq!(status["supportedFeatures"][0]["name"], "BackendTLSPolicy");
        assert_eq!(status["conditions"][1]["reason"], "SupportedVersion");
        assert_eq!(status["conditions"][1]["observedGeneration"], 3);
    }

    #[test]
    fn an_unknown_release_is_unsupported() {
        assert_eq!(status(None)["conditions"][1]["status"], "False");
    }
}
