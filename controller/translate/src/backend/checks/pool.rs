//! InferencePool, of the Inference Extension, and the pods that it selects.

use crate::backend::api::{InferencePool, Pod, Service};
use crate::files::check::Check;
use crate::files::syntax;
use crate::objects::admission::Admissible;
use crate::objects::api::Resource as _;
use crate::objects::checks::reference::group_and_kind;

impl Admissible for InferencePool {
    fn check(&self, check: &mut Check) {
        let spec = &self.spec;
        check.field("spec", |check| {
            check.field("selector", |check| {
                if spec.selector.match_labels.is_empty() {
                    check.missing("matchLabels", "is empty: name a label that the pods have");
                }
            });
            if spec.target_ports.is_empty() {
                check.missing("targetPorts", "is empty: name the ports of the pods");
            }
            check.at_most("targetPorts", spec.target_ports.len(), MAX_PORTS);
            check.distinct("targetPorts", &spec.target_ports, "number", |port| {
                Some(port.number)
            });
            let Some(picker) = &spec.endpoint_picker_ref else {
                return;
            };
            check.field("endpointPickerRef", |check| {
                group_and_kind(check, &picker.group, &picker.kind);
                check.fits_field("name", Some(&picker.name), syntax::object_name);
                if picker.kind == Service::KIND.name() && picker.port.is_none() {
                    check.missing("port", "is required for a Service");
                }
            });
        });
    }
}

/// Of the Inference Extension.
const MAX_PORTS: usize = 8;

/// Not validated here: Pods are not written by hand.
impl Admissible for Pod {
    const READS_STATUS: bool = true;
    const UNREAD: &'static [&'static str] = &["spec", "status"];

    fn check(&self, _: &mut Check) {}
}
