//! What of a Gateway's parameters is not in effect, or has a consequence that its author should know: conditions
//! of the Gateway, which is accepted and served all the same.

use serde_json::Value;
use translate::status::{
    Blame, Condition, ConditionStatus, ConditionType, Reason, Status, shortened,
};

/// A condition of a Gateway about its workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadProblem {
    /// The condition's type.
    pub kind: ConditionType,
    /// Its reason.
    pub reason: Reason,
    /// What is not as it is written, and what to do.
    pub message: String,
}

/// The types of these conditions, with their reasons.
const KINDS: [(ConditionType, &[Reason]); 2] = [
    (
        ConditionType::AutoscalingRefused,
        &[Reason::AutoscalerExists, Reason::NoResourceRequest],
    ),
    (ConditionType::Degraded, &[Reason::RolloutsInterrupt]),
];

/// Adds the conditions to the status of a Gateway. Those that are not known yet, to a controller that has just
/// become the leader, stay as they are in the cluster.
pub fn report(problems: Option<&[WorkloadProblem]>, status: &mut Status, present: &Value) {
    let Status::Gateway(status) = status else {
        return;
    };
    let generation = status.conditions.first().map(|it| it.observed_generation);
    let generation = generation.unwrap_or_default();
    let problems = match problems {
        Some(known) => known.to_vec(),
        None => in_cluster(present, generation),
    };
    let conditions = problems.into_iter().map(|problem| Condition {
        kind: problem.kind,
        status: ConditionStatus::True,
        reason: problem.reason,
        message: shortened(problem.message.into()),
        observed_generation: generation,
        field: None,
        blame: Blame::Own,
    });
    status.conditions.extend(conditions);
}

/// The conditions in the status in the cluster that are of this generation.
fn in_cluster(present: &Value, generation: i64) -> Vec<WorkloadProblem> {
    let conditions = present.get("conditions").and_then(Value::as_array);
    let conditions = conditions.into_iter().flatten();
    let found = conditions.filter_map(|condition| {
        let text = |field| condition.get(field).and_then(Value::as_str);
        let is_current = condition.get("observedGeneration")?.as_i64() == Some(generation);
        let is_true = is_current && text("status") == Some("True");
        let mut kinds = KINDS.iter().filter(|_| is_true);
        let (kind, reasons) = kinds.find(|(kind, _)| text("type") == Some(&kind.to_string()))?;
        let mut reasons = reasons.iter();
        let reason = reasons.find(|it| text("reason") == Some(&it.to_string()))?;
        Some(WorkloadProblem {
            kind: *kind,
            reason: *reason,
            message: text("message")?.to_owned(),
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use translate::status::GatewayStatus;

    use super::*;

    fn reported(problems: Option<&[WorkloadProblem]>, present: &Value) -> Vec<(String, String)> {
        let accepted = Condition {
            kind: ConditionType::Accepted,
            status: ConditionStatus::True,
            reason: Reason::Accepted,
            message: "".into(),
            observed_generation: 2,
            field: None,
            blame: Blame::Own,
        };
        let mut status = Status::Gateway(GatewayStatus {
            addresses: Vec::new(),
            conditions: vec![accepted],
            listeners: Vec::new(),
            attached_listener_sets: 0,
        });
        report(problems, &mut status, present);
        let Status::Gateway(status) = status else {
            unreachable!("it is a Gateway's")
        };
        let added = status.conditions.into_iter().skip(1);
        let added = added.inspect(|it| assert_eq!(it.observed_generation, 2));
        added
            .map(|it| (it.reason.to_string(), it.message.to_string()))
            .collect()
    }

    #[test]
    fn a_condition_stays_until_the_workload_is_known() {
        let condition = |generation: i64| {
            json!({"conditions": [{
                "type": "AutoscalingRefused", "status": "True", "reason": "AutoscalerExists",
                "message": "another scales", "observedGeneration": generation}]})
        };
        let kept = [("AutoscalerExists".to_owned(), "another scales".to_owned())];
        assert_eq!(reported(None, &condition(2)), kept);
        assert_eq!(reported(None, &condition(1)), []);
        assert_eq!(reported(Some(&[]), &condition(2)), []);
        let other = WorkloadProblem {
            kind: ConditionType::AutoscalingRefused,
            reason: Reason::NoResourceRequest,
            message: "set it".to_owned(),
        };
        let expected = [("NoResourceRequest".to_owned(), "set it".to_owned())];
        assert_eq!(reported(Some(&[other]), &condition(2)), expected);
    }
}
